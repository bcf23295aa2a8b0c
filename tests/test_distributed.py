"""Partitions on a real Dask cluster, and in files."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file
from sklearn.feature_extraction import DictVectorizer, FeatureHasher

import maxmargin
from maxmargin import (
    MultiLabelClassifier,
    OrdinalClassifier,
    Partitioned,
    SequenceLabeler,
    StateFeatures,
    TreeParser,
    datasets_made,
    distributed,
)
from maxmargin.distributed import Shards, hashed, worker
from maxmargin.distributed.dask import DaskEngine
from maxmargin.distributed.engines import VersionError
from maxmargin.files import FileError
from test_couplings import SENTENCES, tagger
from test_couplings import TAGS as RARE_TAGS
from test_partitions import KINDS, TAGS, WORDS, X, Y, bits, flat, optimum

dask = pytest.importorskip("dask")
cluster_of = pytest.importorskip("distributed")


@pytest.fixture(scope="module")
def client():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with cluster_of.LocalCluster(**options) as cluster, cluster_of.Client(cluster) as client:
        yield client


@pytest.mark.parametrize(("make", "X", "y"), KINDS)
def test_dask_and_threads_give_the_same_bits(client, make, X, y):
    expected = make(tol=1e-2, solver=Partitioned("auto", 3)).fit(X, y)
    found = distributed.fit(make(tol=1e-2), (X, y), engine=client, n_partitions=3)
    assert bits(found) == bits(expected)


def test_dask_and_threads_give_the_same_bits_where_columns_are_rare(client):
    expected = tagger(4, tol=5e-2).fit(SENTENCES, RARE_TAGS)
    given = SequenceLabeler(random_state=0, tol=5e-2), (SENTENCES, RARE_TAGS)
    assert bits(distributed.fit(*given, engine=client, n_partitions=4)) == bits(expected)


def test_one_partition_on_a_cluster_is_the_plain_solver(client):
    found = distributed.fit(flat(), (X, Y), engine=client, n_partitions=1)
    assert bits(found) == bits(flat().fit(X, Y))


def test_gradients_on_a_cluster(client):
    expected = flat("crf", solver=Partitioned("auto", 2)).fit(X, Y)
    assert bits(distributed.fit(flat("crf"), (X, Y), engine=client, n_partitions=2)) == bits(
        expected
    )


def test_a_call_may_take_any_number_of_looks():
    """The time that a look may wait for an answer grows with the looks, but not for ever."""
    engine = object.__new__(DaskEngine)
    engine._dask, engine.client = mock.MagicMock(), mock.MagicMock(status="running")
    engine.client.nthreads.return_value = ["here"]
    future, waited = mock.Mock(status="finished"), []
    future.done.side_effect = [False] * 100 + [True]
    future.result.side_effect = lambda timeout: waited.append(timeout) or "answer"
    assert engine._results([future], ["here"]) == ["answer"]
    assert len(waited) == 1 and threading.TIMEOUT_MAX > waited[0]


# --- data of a cluster -------------------------------------------------------------------------

TOKENS = [[{"word": "ab cd ef"[k * 3 : k * 3 + 2], "bias": 1.0} for k in range(n)] for n in
          (1, 2, 3, 2, 1, 3)]  # fmt: skip
CHUNKS = [
    ["V" if token["word"] == "ab" else "NO"[t % 2] for t, token in enumerate(x)] for x in TOKENS
]


def assert_brackets(model, whole):
    assert model.status_ == "converged"
    assert model.dual_ <= whole.primal_ + 1e-9 and whole.dual_ <= model.primal_ + 1e-9


def test_bags_of_feature_dicts(client):
    import dask.bag as bags

    data = bags.from_sequence(list(zip(TOKENS, CHUNKS, strict=True)), npartitions=3)
    model = distributed.fit(SequenceLabeler(random_state=0), data, engine=client)
    whole = SequenceLabeler(random_state=0).fit(TOKENS, CHUNKS)
    assert_brackets(model, whole)
    names = sorted(whole.vectorizer_.feature_names_)
    assert model.vectorizer_.feature_names_ == names
    assert model.classes_.tolist() == whole.classes_.tolist()
    assert model.alpha_ == pytest.approx(whole.alpha_, rel=1e-12)  # sums in another order
    assert [p.tolist() for p in model.predict(TOKENS)] == [
        p.tolist() for p in whole.predict(TOKENS)
    ]
    assert distributed.score(model, data, engine=client) == pytest.approx(
        model.score(TOKENS, CHUNKS)
    )
    found = distributed.predict(model, data, engine=client)
    assert [p.tolist() for p in found] == [p.tolist() for p in model.predict(TOKENS)]


@pytest.mark.more
def test_arrays_and_tables(client):
    import dask.array as arrays
    import dask.dataframe as frames
    import pandas as pd

    whole = flat().fit(X, Y)
    data = arrays.from_array(X, chunks=(15, 2)), arrays.from_array(Y, chunks=15)
    assert_brackets(distributed.fit(flat(), data, engine=client), whole)
    table = pd.DataFrame(X, columns=list("abcd")).assign(label=Y)
    data = frames.from_pandas(table, npartitions=3)
    assert_brackets(distributed.fit(flat(), data, engine=client, target="label"), whole)
    with pytest.raises(ValueError, match="needs target="):
        distributed.fit(flat(), data, engine=client)
    delayed = [dask.delayed(tuple)([X[k::2], Y[k::2]]) for k in range(2)]
    assert_brackets(distributed.fit(flat(), delayed, engine=client), whole)
    ragged = [dask.delayed(tuple)([X, Y]), dask.delayed(tuple)([X[:, :3], Y])]
    with pytest.raises(ValueError, match="partition 1 has 3 columns, but partition 0 has 4"):
        distributed.fit(flat(), ragged, engine=client)
    with pytest.raises(ValueError, match="partition 1 is empty"):
        distributed.fit(flat(), [delayed[0], dask.delayed(tuple)([X[:0], Y[:0]])], engine=client)


def test_prediction_of_data_in_memory(client):
    model = flat().fit(X, Y)
    assert (distributed.predict(model, X, engine=client) == model.predict(X)).all()
    assert distributed.score(model, (X, Y), engine=client) == pytest.approx(model.score(X, Y))


# --- faults ------------------------------------------------------------------------------------


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"


@pytest.mark.more
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes in /proc")
def test_a_killed_worker_leaves_the_certificate_true_and_no_process_behind():
    best = optimum()
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with cluster_of.LocalCluster(**options) as cluster, cluster_of.Client(cluster) as client:
        pids = set(client.run(os.getpid).values())
        killed = []

        def kill_one(check):
            if check.passes >= 2 and not killed:
                killed.append(min(pids))
                os.kill(killed[0], signal.SIGKILL)

        model = flat(tol=1e-3, callbacks=kill_one)
        distributed.fit(model, (X, Y), engine=client, n_partitions=3)
        assert killed and model.status_ == "converged"
        for check in model.history_:
            assert check.dual <= best + 1e-9 and best <= check.primal + 1e-9
        pids |= set(client.run(os.getpid).values())
    deadline = time.monotonic() + 20
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(alive, pids))


INTERRUPTED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever started this may ignore it
from maxmargin import distributed
from test_partitions import X, Y, flat
if __name__ == "__main__":
    model = flat(tol=1e-15, max_iter=10**9, callbacks=lambda check: print("check", flush=True))
    distributed.fit(model, (X, Y), engine=eval(sys.argv[1]), n_workers=2)
    print(model.status_, model.primal_, model.dual_)
"""


def below(pid):
    """Processes that a process has started, and that these have started."""
    parents = {}
    for other in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError), open(f"/proc/{other}/stat") as file:  # unless it has ended
            parents[int(other)] = int(file.read().rsplit(")", 1)[1].split()[1])
    found, new = set(), {pid}
    while new:
        new = {other for other, parent in parents.items() if parent in new} - found
        found |= new
    return found


def assert_survives_ctrl_c(engine, tmp_path):
    """Interrupt a fit as a terminal does, all of its processes: it returns the best model."""
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    run = subprocess.Popen(
        [sys.executable, str(script), repr(engine)], stdout=subprocess.PIPE, text=True,
        start_new_session=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    for _ in range(3):
        assert run.stdout.readline() == "check\n"
    pids = below(run.pid)
    os.killpg(run.pid, signal.SIGINT)
    last = run.communicate(timeout=120)[0].splitlines()[-1].split()
    assert run.returncode == 0 and last[0] == "interrupted"
    best = optimum()
    assert float(last[2]) <= best + 1e-9 and best <= float(last[1]) + 1e-9
    deadline = time.monotonic() + 20
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not any(map(alive, pids))


@pytest.mark.more
@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="looks at processes in /proc")
@pytest.mark.parametrize("engine", [None, "threads", "disk"])
def test_ctrl_c_returns_the_best_model_and_leaves_no_process(engine, tmp_path):
    assert_survives_ctrl_c(engine, tmp_path)


def test_a_client_that_is_closed_in_the_middle(client):
    other = cluster_of.Client(client.scheduler.address, set_as_default=False)
    model = flat(tol=1e-6, callbacks=lambda check: other.close() if check.passes >= 2 else None)
    with pytest.raises(ConnectionError, match="client is clos"):
        distributed.fit(model, (X, Y), engine=other, n_partitions=2)


def test_a_worker_of_another_version_is_refused(client, monkeypatch):
    monkeypatch.setattr(worker, "version", lambda: "0.0.7")
    with pytest.raises(VersionError, match=r"has maxmargin .*, but this process has 0\.0\.7"):
        distributed.fit(flat(), (X, Y), engine=client)


@pytest.mark.parametrize(("engine", "package"), [(None, "distributed"), ("ray", "ray")])
def test_an_engine_that_is_not_installed_names_the_extra(monkeypatch, engine, package):
    monkeypatch.setitem(sys.modules, package, None)
    extra = "ray" if engine else "dask"
    with pytest.raises(ImportError, match=rf'pip install "maxmargin\[{extra}\]"'):
        distributed.fit(flat(), (X, Y), engine=engine)


def test_an_address_that_nobody_answers():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.1:{unused.getsockname()[1]}"
    began = time.monotonic()
    with pytest.raises(ConnectionError, match="nobody answers at tcp://"):
        distributed.fit(flat(), (X, Y), engine=address)
    assert time.monotonic() - began < 10
    for wrong in ("tcp://host", "nonsense"):
        with pytest.raises(ValueError, match="scheme://host:port"):
            distributed.fit(flat(), (X, Y), engine=wrong)
    with pytest.raises(TypeError, match="engine must be"):
        distributed.fit(flat(), (X, Y), engine=7)


def test_a_checkpoint_goes_on_with_another_number_of_workers(client, tmp_path):
    path = tmp_path / "run"
    whole = flat(tol=1e-3, solver=Partitioned("auto", 3)).fit(X, Y)

    def stop(check):
        if check.passes >= 3:
            raise KeyboardInterrupt

    model = flat(tol=1e-3, callbacks=stop)
    distributed.fit(
        model, (X, Y), engine=client, n_partitions=3, checkpoint=path, checkpoint_every=0
    )
    assert model.status_ == "interrupted" and path.exists()
    model = flat(tol=1e-3)
    distributed.fit(model, (X, Y), engine="threads", n_workers=1, n_partitions=3, checkpoint=path)
    assert bits(model) == bits(whole) and not path.exists()


# --- shards ------------------------------------------------------------------------------------


def write_conll(path, sentences):
    lines = ["".join(f"{word} {tag}\n" for word, tag in tokens) for tokens in sentences]
    path.write_text("\n".join(lines))


def test_shards_of_sentences(client, tmp_path):
    rng = np.random.RandomState(0)
    every = [[("abcde"[i], "XYO"[min(i, 2)]) for i in rng.randint(0, 5, n)] for n in (3, 2, 4) * 4]
    every[0][0] = ("q", "ONCE")  # a label that occurs in one shard only
    for k in range(3):
        write_conll(tmp_path / f"part-{k}.conll", every[k::3])
    shards = Shards(str(tmp_path / "part-*.conll"), "sequence")
    found = [
        distributed.fit(SequenceLabeler(random_state=0, tol=1e-3), shards, engine=engine)
        for engine in ("disk", "threads", client)
    ]
    assert len({bits(model) for model in found}) == 1
    assert found[0].classes_.tolist() == ["O", "ONCE", "X", "Y"]
    data = [shard.load() for shard in shards.shards]
    inputs, outputs = ([e for part in data for e in part[i]] for i in (0, 1))
    assert_brackets(found[0], SequenceLabeler(random_state=0, tol=1e-3).fit(inputs, outputs))


def test_shards_of_sparse_rows_and_of_tables(tmp_path):
    rows = sp.random(60, 9, 0.4, format="csr", random_state=0)
    y = np.asarray(rows.sum(axis=1)).ravel() > 1.7
    for k in range(2):
        dump_svmlight_file(rows[k::2], y[k::2], str(tmp_path / f"{k}.svm"), zero_based=False)
        arrays = {"X": rows[k::2].toarray(), "y": y[k::2].astype(np.int64)}
        np.savez(tmp_path / f"{k}.npz", **arrays)
    whole = flat().fit(rows, y.astype(int))
    for suffix in ("svm", "npz"):
        shards = Shards(str(tmp_path / f"*.{suffix}"), "multiclass")
        assert_brackets(distributed.fit(flat(), shards, engine="disk"), whole)


@pytest.mark.more
def test_shards_of_trees(tmp_path):
    """All have weights of the same number, however few sentences one of them has."""
    made = datasets_made.make_sentences(6)
    for name, part in (("a", slice(0, 5)), ("b", slice(5, 6))):
        lines = []
        for words, heads in zip(made.X[part], made.y[part], strict=True):
            for k, ((form, tag), head) in enumerate(zip(words, heads, strict=True), 1):
                lines.append(f"{k}\t{form}\t_\t{tag}\t_\t_\t{head}\tdep\t_\t_")
            lines.append("")
        (tmp_path / f"{name}.conllu").write_text("\n".join([*lines, ""]))
    shards = Shards(str(tmp_path / "*.conllu"), "tree")
    found = distributed.fit(TreeParser(random_state=0), shards, engine="disk")
    sentences = [s for shard in shards.shards for s in shard.load()[0]]
    whole = TreeParser(hash_bits=20, random_state=0)
    assert_brackets(found, whole.fit(sentences, [s.heads for s in sentences]))


@pytest.mark.more
def test_hashed_shards(tmp_path):
    """Without collisions the model is that of names: other columns, nothing else."""
    rng = np.random.RandomState(0)
    every = [[("abcd"[i], "XY"[i % 2]) for i in rng.randint(0, 4, n)] for n in (3, 2, 4) * 2]
    for k in range(2):
        write_conll(tmp_path / f"{k}.conll", every[k::2])
    pattern, hasher = str(tmp_path / "*.conll"), FeatureHasher(1 << 16)
    shards, named = Shards(pattern, "sequence", hasher=hasher), Shards(pattern, "sequence")
    X = [x for shard in named.shards for x in shard.load()[0]]
    rows = sp.vstack(hashed(X, hasher))
    names = DictVectorizer().fit([features for x in X for features in x]).feature_names_
    assert len(np.unique(rows.indices)) == len(names)  # no collisions
    found = distributed.fit(SequenceLabeler(random_state=0), shards, engine="disk")
    whole = distributed.fit(SequenceLabeler(random_state=0), named, engine="disk")
    assert found.n_features_in_ == 1 << 16 and found.vectorizer_ is None
    assert found.alpha_ == pytest.approx(whole.alpha_, rel=1e-12)
    assert_brackets(found, whole)
    inputs = hashed(X, hasher)
    expected = [p.tolist() for p in whole.predict(X)]
    assert [p.tolist() for p in found.predict(inputs)] == expected
    assert [p.tolist() for p in distributed.predict(found, shards, engine="disk")] == expected


def test_hashers_are_for_feature_dicts(tmp_path):
    np.savez(tmp_path / "0.npz", X=X, y=Y)
    with pytest.raises(FileError, match=r"0\.npz: hasher= is for feature dicts"):
        shards = Shards(str(tmp_path / "0.npz"), "multiclass", hasher=FeatureHasher(8))
        distributed.fit(flat(), shards, engine="disk")
    with pytest.raises(ValueError, match="input_type='dict'; received 'pair'"):
        Shards(str(tmp_path / "0.npz"), "multiclass", hasher=FeatureHasher(8, input_type="pair"))


def test_more_shards_continue_the_dual(tmp_path):
    rng = np.random.RandomState(1)
    words = ("ab", "ab", "abc")  # the last shard has a feature that no other has
    for k, known in enumerate(words):
        tokens = [[known[i] for i in rng.randint(0, len(known), 3)] for _ in range(8)]
        tagged = [[(w, "XY"[(w == "a") ^ (rng.rand() < 0.1)]) for w in x] for x in tokens]
        write_conll(tmp_path / f"{k}.conll", tagged)
    paths = [tmp_path / f"{k}.conll" for k in range(3)]
    model = SequenceLabeler(random_state=0, tol=1e-3)
    distributed.partial_fit(model, Shards(paths[:2], "sequence"))
    before = model.n_features_in_
    distributed.partial_fit(model, Shards(paths[2:], "sequence"))
    assert model.n_features_in_ > before and not model.warm_start
    fresh = distributed.fit(
        SequenceLabeler(random_state=0, tol=1e-3), Shards(paths, "sequence"), engine="disk"
    )
    assert_brackets(model, fresh)
    assert model.history_[0].dual > 0.0 == fresh.history_[0].dual


def test_shards_of_a_fit_are_not_forgotten(tmp_path):
    """More shards are added to those of ``fit``, also after a fit with a dual point of others."""
    rng = np.random.RandomState(1)
    for k in range(3):
        tagged = [[(w, "XY"[rng.rand() < 0.3]) for w in ("a", "b")[: k + 1]] for _ in range(8)]
        write_conll(tmp_path / f"{k}.conll", tagged)
    paths = [tmp_path / f"{k}.conll" for k in range(3)]
    new = partial(SequenceLabeler, random_state=0, tol=1e-3)
    whole = distributed.fit(new(), Shards(paths, "sequence"), engine="disk")
    for warm in (False, True):
        model = distributed.fit(new(warm_start=warm), Shards(paths[:2], "sequence"), engine="disk")
        distributed.partial_fit(model, Shards(paths[2:], "sequence"))
        assert_brackets(model, whole)


def write_tables(folder, tables):
    """Shards of CSV: lines of names and values."""
    for k, text in enumerate(tables):
        (folder / f"{k}.csv").write_text(text)
    return Shards(folder / "*.csv", "multiclass", target="y")


def test_columns_and_categories_of_tables_are_found_by_name(tmp_path):
    """Neither their order nor the categories that one shard has change what a column means."""
    rng = np.random.RandomState(0)
    rows = [
        (x, "red green blue".split()[int(rng.randint(3))], "pq"[int(x > 0)]) for x in rng.randn(30)
    ]
    orders = ("{0},{1},{2}", "{2},{1},{0}")
    halves = [[r for r in rows if r[1] != "blue"], [r for r in rows if r[1] != "green"]]
    tables = [
        "\n".join(order.format(*row) for row in [("a", "colour", "y"), *half])
        for order, half in zip(orders, halves, strict=True)
    ]
    found = distributed.fit(flat(), shards := write_tables(tmp_path, tables), engine="disk")
    every = [row for half in halves for row in half]
    names = ("blue", "green", "red")
    X_all = np.array([[x, *(colour == name for name in names)] for x, colour, _ in every], float)
    labels = [y for *_, y in every]
    assert_brackets(found, flat().fit(X_all, labels))
    assert (
        distributed.predict(found, shards, engine="disk").tolist() == found.predict(X_all).tolist()
    )
    assert distributed.score(found, shards, engine="disk") == pytest.approx(
        found.score(X_all, labels)
    )


def test_sparse_shards_agree_on_the_number_of_the_first_column(tmp_path):
    """A shard without the column 0 does not count from 1 where another one has it."""
    (tmp_path / "0.svm").write_text("1 0:1 2:0.5\n2 1:1\n")
    (tmp_path / "1.svm").write_text("1 2:0.5\n2 1:1 4:1\n3 3:1\n")
    shards = Shards(str(tmp_path / "*.svm"), "multiclass")
    found = distributed.fit(flat(), shards, engine="disk")
    rows = np.array(
        [[1, 0, 0.5, 0, 0], [0, 1, 0, 0, 0], [0, 0, 0.5, 0, 0], [0, 1, 0, 0, 1], [0, 0, 0, 1, 0]]
    )
    assert_brackets(found, flat().fit(rows, [1, 2, 1, 2, 3]))
    assert (
        distributed.predict(found, shards, engine="disk").tolist() == found.predict(rows).tolist()
    )


def test_label_sets_and_orders_of_all_shards(tmp_path):
    for k, lines in enumerate(("1,2 1:1\n2 2:1\n", "3 1:1\n1 2:1\n")):
        (tmp_path / f"{k}.svm").write_text(lines)
        levels = ("low", "middle") if k else ("middle", "top")
        text = "".join(f"{i},{levels[i % 2]}\n" for i in range(6))
        (tmp_path / f"{k}.csv").write_text("a,y\n" + text)
    model = MultiLabelClassifier(edges="none", random_state=0)
    distributed.fit(model, Shards(tmp_path / "*.svm", "multilabel"), engine="disk")
    sets = np.array([[1, 1, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0]])
    whole = MultiLabelClassifier(edges="none", random_state=0)
    assert_brackets(model, whole.fit(np.array([[1.0, 0], [0, 1], [1, 0], [0, 1]]), sets))
    assert model.classes_.tolist() == [1, 2, 3] and model.classes is None
    order = ("low", "middle", "top")
    found = distributed.fit(
        OrdinalClassifier(random_state=0), Shards(tmp_path / "*.csv", "ordinal", order=order),
        engine="disk",
    )  # fmt: skip
    assert found.classes_.tolist() == list(order)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("a,y\n1,p\n", r"1\.csv: has no column 'b', but .*0\.csv has one"),
        ("a,b,c,y\n1,2,3,p\n", r"0\.csv: has no column 'c', but .*1\.csv has one"),
        ("a,b,y\n1,red,p\n", r"1\.csv: column 'b' is a category, but in .* name it in categ"),
        ("a,b,y\n1,p\n", r"1\.csv: line 2"),
    ],
)
def test_tables_that_differ_in_columns(tmp_path, second, message):
    shards = write_tables(tmp_path, ["a,b,y\n1,2,p\n2,1,q\n", second])
    with pytest.raises(FileError, match=message):
        distributed.fit(flat(), shards, engine="disk")


def test_bad_shards(tmp_path):
    with pytest.raises(FileError, match="no file matches"):
        Shards(str(tmp_path / "*.conll"), "sequence")
    write_conll(tmp_path / "0.conll", [[("a", "X"), ("b", "Y")]])
    (tmp_path / "1.conll").write_text("a X\nb\n")
    shards = Shards(str(tmp_path / "*.conll"), "sequence")
    with pytest.raises(FileError, match=r"1\.conll.*2"):
        distributed.fit(SequenceLabeler(), shards, engine="disk")
    write_conll(tmp_path / "1.conll", [[("a b", "X"), ("b c", "Y")]])
    with pytest.raises(FileError, match=r"1\.conll: the number of columns of tokens is 3, but of"):
        distributed.fit(SequenceLabeler(), shards, engine="disk")
    with pytest.raises(ValueError, match="missing='mean' needs the means of all shards"):
        Shards(tmp_path / "0.conll", "sequence", missing="mean")
    (tmp_path / "1.conll").write_text("")
    with pytest.raises((FileError, ValueError), match=r"1\.conll|partition 1"):
        distributed.fit(SequenceLabeler(), shards, engine="disk")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"early_stopping": True}, "early_stopping=True is not available"),
        ({"class_weight": "balanced"}, "class_weight='balanced' needs"),
        ({"state_features": StateFeatures(min_count=2)}, "min_count=2 counts all positions: use 1"),
        ({"state_features": "seen"}, "state_features='seen' looks at all positions: use 'all'"),
    ],
)
def test_parameters_that_need_all_data(tmp_path, params, message):
    write_conll(tmp_path / "0.conll", [[("a", "X"), ("b", "Y")]])
    shards = Shards(str(tmp_path / "0.conll"), "sequence")
    with pytest.raises(ValueError, match=message):
        distributed.fit(SequenceLabeler(**params), shards, engine="disk")


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (TreeParser(order=2), "order=2 chooses candidate heads"),
        (TreeParser(labels=True), "labels are trained after the heads: use labels=False"),
        (MultiLabelClassifier(), "edges='auto' chooses pairs of labels: use 'none', 'full'"),
        (MultiLabelClassifier(edges="tree"), "edges='tree' chooses"),
    ],
)
def test_choices_that_partitions_would_make_differently(tmp_path, model, message):
    (tmp_path / "0.csv").touch()
    with pytest.raises(ValueError, match=message):
        distributed.fit(model, Shards(str(tmp_path / "0.csv"), "tree"), engine="disk")


def test_data_that_no_engine_knows():
    with pytest.raises(TypeError, match="data must be"):
        distributed.fit(flat(), X, engine="threads")
    with pytest.raises(ValueError, match="n_partitions=99 is more than"):
        distributed.fit(flat(), (X, Y), engine="threads", n_partitions=99)


def test_words_in_threads():
    model = SequenceLabeler(alpha=0.05, random_state=0)
    distributed.fit(model, (WORDS, TAGS), engine="threads", n_workers=2)
    assert model.status_ == "converged"
    assert isinstance(model, SequenceLabeler) and model._engine is None


@pytest.mark.more
def test_columns_of_tables_in_memory_are_found_by_name(client):
    """The order of the columns of a partition does not change what they mean."""
    import pandas as pd

    def delayed(*frames):
        return [dask.delayed(tuple)([f, Y[k::2]]) for k, f in enumerate(frames)]

    table = pd.DataFrame(X, columns=list("abcd"))
    expected = distributed.fit(flat(), delayed(table[::2], table[1::2]), engine=client)
    other = delayed(table[::2], table[list("dbca")][1::2])
    found = distributed.fit(flat(), other, engine=client)
    assert bits(found) == bits(expected) and found.feature_names_in_.tolist() == list("abcd")
    assert (
        distributed.predict(found, other, engine=client).tolist()
        == distributed.predict(expected, delayed(table[::2], table[1::2]), engine=client).tolist()
    )
    for frames, message in (
        ((table, table.rename(columns={"c": "e"})), "partition 1 has no column 'c', but partition"),
        ((table, table.assign(e=1.0)), "partition 0 has no column 'e', but partition 1 has one"),
        ((table, X), "partition 1 has no names of columns, but partition 0 has"),
        ((table, table.set_axis(list("dcbb"), axis=1)), "no column 'a'"),
        (
            (table.set_axis(list("abcc"), axis=1), table.set_axis(list("bacc"), axis=1)),
            "several columns of partition 1 or 0 are called 'c'",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            distributed.fit(
                flat(), [dask.delayed(tuple)([frame, Y]) for frame in frames], engine=client
            )


def test_methods_that_a_model_does_not_have():
    model = flat().fit(X, Y)
    with pytest.raises(TypeError, match="there is no 'decode' to call on partitions: .*'decode'"):
        distributed.decode(model, X, engine="threads")
    with pytest.raises(TypeError, match="'predict_proba' to call on partitions: probabilities"):
        distributed.predict(model, X, engine="threads", method="predict_proba")


def shards_of_colours(folder):
    """Two tables with a column of categories, each of which lacks one."""
    tables = [f"x,colour,y\n{rows}" for rows in ("1,red,p\n2,blue,q\n", "1,green,q\n3,red,p\n")]
    return write_tables(folder, tables)


def test_saved_models_read_new_shards_by_the_same_recipe(tmp_path):
    shards = shards_of_colours(tmp_path)
    model = distributed.fit(flat(), shards, engine="disk")
    maxmargin.save(model, tmp_path / "model")
    loaded = maxmargin.load(tmp_path / "model")
    new = Shards(tmp_path / "1.csv", "multiclass", target="y")
    assert loaded.shards_ == model.shards_ and loaded.shards_["number"] == 2
    assert (
        distributed.predict(loaded, new, engine="disk").tolist()
        == distributed.predict(model, new, engine="disk").tolist()
    )
    with pytest.raises(ValueError, match=r"trained on 2 shards and read from a file of maxmargin"):
        distributed.partial_fit(loaded, new)
    loaded.shards_ = {"number": 2, "recipe": ["form"]}
    maxmargin.save(loaded, tmp_path / "model")
    with pytest.raises(maxmargin.ModelFileError, match="expected a recipe with a form"):
        maxmargin.load(tmp_path / "model")


def test_a_plain_fit_forgets_shards(tmp_path):
    """Shards that are read later are not read by the recipe of an earlier fit."""
    shards = shards_of_colours(tmp_path)
    model = distributed.partial_fit(flat(), shards)
    assert {"shards_", "_known_shards", "_known_parts"} <= set(vars(model))
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((2, 4), np.nan), [0, 1])
    assert {"shards_", "_known_shards", "_known_parts"} <= set(vars(model))
    model.fit(X, Y)
    assert not {"shards_", "_known_shards", "_known_parts"} & set(vars(model))
    model = distributed.fit(flat(), shards, engine="disk")
    distributed.fit(model, (X, Y), engine="threads", n_partitions=2)
    assert not {"shards_", "_known_shards", "_known_parts"} & set(vars(model))


@pytest.mark.parametrize("local_passes", [1, 2])
def test_progress_of_partitions_shows_rounds_workers_and_the_gap(caplog, local_passes):
    solver = Partitioned("auto", 2, local_passes)
    model = flat(solver=solver, verbose=1, max_iter=40, tol=1e-3)
    with caplog.at_level("INFO", "maxmargin"):
        distributed.fit(model, (X, Y), engine="threads", n_workers=2, n_partitions=2)
    lines = [r.message for r in caplog.records if "gap" in r.message]
    most = 40 // local_passes
    assert lines and all(f"/{most} " in line and " pass " not in line for line in lines)
    assert lines[0].startswith("MulticlassClassifier (2 partitions, 2 workers): round 0/")
    last = float(lines[-1].split("round ")[1].split("/")[0])
    assert last == pytest.approx(model.history_[-1].passes / local_passes, rel=1e-3)
