"""How a fit is watched, stopped and repeated: status, callbacks, Ctrl-C, early stopping."""

from __future__ import annotations

import logging
import signal
import threading
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxmargin import (
    Accelerated,
    Averaged,
    BlockFrankWolfe,
    Check,
    Checked,
    EarlyStopping,
    MulticlassClassifier,
    OrdinalClassifier,
    SequenceLabeler,
)
from maxmargin.solvers import interrupt as interrupt_module
from maxmargin.solvers import loop
from maxmargin.solvers.frank_wolfe import ORDERS

RNG = np.random.RandomState(0)
X = RNG.randn(40, 4)
Y = (X @ RNG.randn(4, 3) + RNG.randn(40, 3)).argmax(axis=1)
SEQUENCES, LABELS = np.split(X, [3, 10, 11, 30]), np.split(Y, [3, 10, 11, 30])


def by_order(order):
    return Averaged(Accelerated(BlockFrankWolfe(order)))


def classifier(**params):
    return MulticlassClassifier(**{"random_state": 0, **params})


def endless(**params):
    """A classifier that takes long to come to its end by itself."""
    return classifier(**{"alpha": 1e-6, "tol": 0.0, "max_iter": 10_000, **params})


def primal(model, X, y):
    """``alpha/2 |w|^2 + mean max_j [ 1(j != y) + v_j ] - v_y``, from the fitted attributes."""
    scores = X @ model.coef_.T + model.intercept_
    codes = np.searchsorted(model.classes_, y)
    truth = np.arange(len(y)), codes
    augmented = scores + 1.0
    augmented[truth] -= 1.0
    square = (model.coef_**2).sum() + (model.intercept_**2).sum()
    return 0.5 * model.alpha_ * square + np.mean(augmented.max(axis=1) - scores[truth])


def assert_certified(model, X=X, y=Y):
    """The certificate is the one of the weights that the model holds."""
    assert np.isfinite([model.primal_, model.dual_, model.gap_]).all()
    assert model.gap_ == model.primal_ - model.dual_ >= 0.0
    # Both sums have 40 terms of size up to |v|: they agree to rounding.
    assert model.primal_ == pytest.approx(primal(model, X, y), rel=1e-10)
    # The dual value bounds the objective of all weights, also of these.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        other = classifier(alpha=model.alpha_, max_iter=300, random_state=1).fit(X, y)
    assert model.dual_ <= primal(other, X, y)


def same_fit(one, other):
    """Equal weights and certificate, bit for bit, and the same way there."""
    assert (one.coef_ == other.coef_).all() and (one.intercept_ == other.intercept_).all()
    histories = [[c._replace(seconds=0.0) for c in model.history_] for model in (one, other)]
    return histories[0] == histories[1]


# --- how it ended -------------------------------------------------------------------------------


def test_converged():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = classifier(tol=0.05).fit(X, Y)
    assert model.status_ == "converged"
    assert model.gap_ <= 0.05 * model.primal_
    assert_certified(model)


def test_max_iter_warns_with_gap_and_tolerance():
    with pytest.warns(ConvergenceWarning) as caught:
        model = classifier(max_iter=2, tol=1e-7).fit(X, Y)
    assert model.status_ == "max_iter" and model.n_iter_ == 2
    message = str(caught[0].message)
    assert "MulticlassClassifier did not converge in 2 passes" in message
    assert f"gap {model.gap_ / model.primal_:.2g} > tol=1e-07" in message
    assert "Increase max_iter" in message
    assert caught[0].filename == __file__
    assert_certified(model)


def test_no_tolerance_asks_for_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = classifier(max_iter=2, tol=0.0).fit(X, Y)
    assert model.status_ == "max_iter"


# --- callbacks ----------------------------------------------------------------------------------


def test_callbacks_hear_of_every_check():
    first, second = [], []
    model = classifier(callbacks=[first.append, second.append], tol=1e-3).fit(X, Y)
    assert first == second == model.history_ and len(first) > 3
    assert all(type(check) is Check for check in first)


@pytest.mark.parametrize("answer", [None, True, 0, ""])
def test_only_false_stops(answer):
    assert classifier(callbacks=lambda check: answer).fit(X, Y).status_ == "converged"


@pytest.mark.parametrize(
    "model, data",
    [
        (MulticlassClassifier(), (X, Y)),
        (OrdinalClassifier(), (X, Y)),
        (SequenceLabeler(), (SEQUENCES, LABELS)),
    ],
    ids=["multiclass", "ordinal", "sequence"],
)
def test_false_stops(model, data):
    met = []
    stop = [lambda check: len(met) < 2, met.append]
    in_order = Averaged(Accelerated(BlockFrankWolfe()))
    model.set_params(callbacks=stop, tol=0.0, solver=Checked(in_order, every=1), random_state=0)
    model.fit(*data)
    assert model.status_ == "stopped"
    assert met == model.history_ and len(met) == 3 and model.n_iter_ == 2
    assert model.gap_ == model.history_[-1].gap > 0.0
    assert len(model.predict(data[0])) == len(data[0])


def test_error_of_a_callback_comes_out():
    def fail(check):
        raise ZeroDivisionError("from the callback")

    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(ZeroDivisionError, match="from the callback"):
        classifier(callbacks=fail).fit(X, Y)
    assert signal.getsignal(signal.SIGINT) is before


# --- Ctrl-C -------------------------------------------------------------------------------------


def at_pass(passes, act):
    """A callback that acts at the first check after some passes."""
    done = []

    def callback(check):
        if check.passes >= passes and not done:
            done.append(True)
            act()

    return callback


def interrupt():
    signal.raise_signal(signal.SIGINT)


def raise_keyboard_interrupt():
    raise KeyboardInterrupt


@pytest.mark.parametrize("act", [interrupt, raise_keyboard_interrupt])
@pytest.mark.parametrize("passes", [0, 3])
def test_interrupt_at_a_check_keeps_a_certified_model(default_sigint, act, passes):
    model = endless(callbacks=at_pass(passes, act), solver=Checked("auto", every=1)).fit(X, Y)
    assert model.status_ == "interrupted"
    assert model.predict(X).shape == (40,)
    assert_certified(model)


def test_interrupt_at_any_time_keeps_a_certified_model(default_sigint):
    classifier().fit(X, Y)  # compile first: signals wait for the compiler
    timer = threading.Timer(0.2, interrupt)
    began = time.perf_counter()
    timer.start()
    model = endless(max_iter=10**7, callbacks=lambda check: time.perf_counter() - began < 20)
    model.fit(X, Y)
    timer.join()
    assert model.status_ == "interrupted"
    assert time.perf_counter() - began < 10
    assert_certified(model)


def test_sequences_can_be_interrupted(default_sigint):
    model = SequenceLabeler(callbacks=at_pass(1, interrupt), tol=0.0, random_state=0)
    model.fit(SEQUENCES, LABELS)
    assert model.status_ == "interrupted"
    assert np.isfinite(model.gap_) and model.gap_ >= 0.0
    assert [len(labels) for labels in model.predict(SEQUENCES)] == [len(x) for x in SEQUENCES]


def test_second_interrupt_is_not_swallowed(default_sigint):
    def twice(check):
        interrupt()  # the first one asks the fit to end, the next one insists

    with pytest.raises(KeyboardInterrupt):
        endless(callbacks=twice, solver=Checked("auto", every=1)).fit(X, Y)


@pytest.mark.parametrize("seconds, fits", [(0.5, 1), (1.5, 3)])
def test_a_search_ends_by_two_interrupts_within_a_second(
    default_sigint, monkeypatch, seconds, fits
):
    """One ends the fit under way; the next fit of a search would have to be ended by another."""
    clock = iter(np.arange(1000.0, 2000.0) * seconds)
    monkeypatch.setattr(interrupt_module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    done = []

    def search():
        for _ in range(3):
            done.append(
                endless(callbacks=at_pass(1, interrupt), solver=Checked()).fit(X, Y).status_
            )

    if fits == 1:
        with pytest.raises(KeyboardInterrupt):
            search()
    else:
        search()
    assert done == ["interrupted"] * fits


def test_handler_of_somebody_else_stays_in_charge():
    met = []
    before = signal.signal(signal.SIGINT, lambda number, frame: met.append(number))
    try:
        mine = signal.getsignal(signal.SIGINT)
        model = classifier(callbacks=at_pass(0, interrupt)).fit(X, Y)
        assert signal.getsignal(signal.SIGINT) is mine
    finally:
        signal.signal(signal.SIGINT, before)
    assert met == [signal.SIGINT] and model.status_ == "converged"


def test_an_ignored_interrupt_stays_ignored():
    """As in a process that was started with nohup or by a shell in the background."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        model = classifier(callbacks=at_pass(0, interrupt)).fit(X, Y)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
    assert model.status_ == "converged"


def test_fit_in_another_thread():
    found = []
    thread = threading.Thread(target=lambda: found.append(classifier(n_jobs=2).fit(X, Y)))
    thread.start()
    thread.join()
    assert found[0].status_ == "converged"
    assert same_fit(found[0], classifier().fit(X, Y))


# --- early stopping -----------------------------------------------------------------------------


def test_early_stopping_keeps_the_best_weights_on_held_out_data():
    model = endless(early_stopping=EarlyStopping(0.5, 3))
    model.fit(X, Y)
    assert model.status_ == "early_stopped"
    train, held_out = model._split(np.arange(40), np.random.RandomState(0))
    assert len(train) == len(held_out) == 20 and not set(train) & set(held_out)
    scores = [check.validation_score for check in model.history_]
    assert scores == sorted(scores)  # the best so far
    assert model.score(X[held_out], Y[held_out]) == scores[-1]
    assert scores[-4:] == [scores[-1]] * 4 and len(scores) > 4
    assert model.primal_ == pytest.approx(primal(model, X[train], Y[train]), rel=1e-10)
    assert model.gap_ == model.primal_ - model.dual_ >= 0.0


def test_early_stopping_of_sequences():
    model = SequenceLabeler(
        alpha=1e-6, tol=0.0, early_stopping=EarlyStopping(0.4, 2), random_state=0,
    ).fit(SEQUENCES, LABELS)  # fmt: skip
    assert model.status_ == "early_stopped"
    _, held_out = model._split(np.arange(5), np.random.RandomState(0))
    score = model.score([SEQUENCES[i] for i in held_out], [LABELS[i] for i in held_out])
    assert score == model.history_[-1].validation_score


# --- the record ---------------------------------------------------------------------------------


def test_history_is_a_table():
    model = classifier(tol=1e-4).fit(X, Y)
    table = pd.DataFrame(model.history_)
    assert list(table.columns) == list(Check._fields)
    assert len(table) > 3 and table.passes[0] == 0.0
    assert table.passes.is_monotonic_increasing and table.oracle_calls.is_monotonic_increasing
    assert table.seconds.is_monotonic_increasing
    assert table.dual.is_monotonic_increasing and table.primal.is_monotonic_decreasing
    assert (table.gap == table.primal - table.dual).all()
    assert (table.oracle_error == model.oracle_error_).all() and model.oracle_error_ == 0.0
    assert table.validation_score.isna().all()
    last = model.history_[-1]
    assert (last.primal, last.dual, last.gap) == (model.primal_, model.dual_, model.gap_)
    assert last.oracle_calls == model.n_oracle_calls_ > 0


def test_checks_come_when_they_are_asked_for():
    model = classifier(tol=0.0, max_iter=7, solver=Checked(by_order("permutation"), every=3)).fit(
        X, Y
    )
    assert [check.passes for check in model.history_] == [0.0, 3.0, 6.0, 7.0]


@pytest.mark.parametrize("verbose", [0, 1])
def test_verbose_logs_the_checks(verbose, caplog, capsys):
    with caplog.at_level(logging.INFO, logger="maxmargin"):
        model = classifier(verbose=verbose).fit(X, Y)
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == verbose * len(model.history_)
    assert all(line.startswith("MulticlassClassifier: pass ") for line in lines)
    assert all(f"gap {c.gap:.1e}" in line for c, line in zip(model.history_, lines))
    assert capsys.readouterr().out == ""


# --- the same again -----------------------------------------------------------------------------


@pytest.mark.parametrize("order", ORDERS)
def test_random_state_decides_everything(order):
    one = classifier(solver=by_order(order), tol=1e-3).fit(X, Y)
    assert same_fit(one, classifier(solver=by_order(order), tol=1e-3).fit(X, Y))
    state = np.random.RandomState(0)
    assert same_fit(one, classifier(solver=by_order(order), tol=1e-3, random_state=state).fit(X, Y))
    other = classifier(solver=by_order(order), tol=1e-3, random_state=1).fit(X, Y)
    assert (one.coef_ != other.coef_).any()


@pytest.mark.parametrize("order", ORDERS)
def test_speed_of_the_machine_changes_nothing(order, monkeypatch):
    fits = []
    for seconds in (1e9, 0.0):  # between two looks at the clock: all blocks, or one
        monkeypatch.setattr(loop, "_SLICE_SECONDS", seconds)
        fits.append(classifier(solver=by_order(order), tol=1e-3).fit(X, Y))
    assert same_fit(*fits)


@pytest.mark.parametrize("n_jobs", [1, 2, -1])
def test_threads_change_no_bit(n_jobs):
    assert same_fit(classifier(n_jobs=n_jobs).fit(X, Y), classifier().fit(X, Y))
    one, other = (
        SequenceLabeler(tol=0.1, random_state=0, n_jobs=jobs).fit(SEQUENCES, LABELS)
        for jobs in (None, n_jobs)
    )
    assert same_fit(one, other) and (one.transitions_ == other.transitions_).all()
    for a, b in zip(one.decision_function(SEQUENCES), other.decision_function(SEQUENCES)):
        assert (a == b).all()


def test_fit_starts_clean():
    model = classifier().fit(X[:, :2], Y % 2)
    assert same_fit(model.fit(X, Y), classifier().fit(X, Y))


def test_warm_start_goes_on_where_the_last_fit_ended():
    with pytest.warns(ConvergenceWarning):
        model = classifier(alpha=1 / len(Y), max_iter=3, tol=1e-4, warm_start=True).fit(X, Y)
    dual = model.dual_
    model.set_params(max_iter=10_000).fit(X, Y)
    assert model.status_ == "converged"
    assert model.history_[0].dual == pytest.approx(dual, rel=1e-12) and dual > 0.0
    # Right also for other features, weights, and labels: the dual is then another one.
    for other in ((X + 0.1, Y), (X[::-1], Y[::-1]), (X[:30], Y[:30]), (X, np.r_[Y[1:], Y[:1]])):
        model.fit(*other)
        assert model.status_ == "converged"
        assert_certified(model, *other)
