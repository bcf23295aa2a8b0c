"""Best outputs, marginals, entropies, draws against enumeration."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from outputs import MAKERS, make_case

from maxmargin.torch import CRFLoss, decode, entropy, log_partition, marginals, sample, topk


def _rebuilt(case, leaves):
    return leaves[0] if len(leaves) == 1 else type(case.scores)(*leaves)


@pytest.mark.parametrize("name", MAKERS)
def test_decode_finds_the_best_output(name):
    for seed in range(3):
        case = make_case(name, seed)
        found = decode(case.scores, case.structure)
        best = case.outputs[int(case.values.argmax())]
        assert tuple(found.reshape(-1).long().tolist()) == best


@pytest.mark.parametrize("name", MAKERS)
def test_sums_over_all_outputs(name):
    case = make_case(name)
    log_sum = case.values.logsumexp(0)
    torch.testing.assert_close(log_partition(case.scores, case.structure)[0], log_sum)
    likely = (case.values - log_sum).exp()
    expected = -(likely * (case.values - log_sum)).sum()
    torch.testing.assert_close(entropy(case.scores, case.structure)[0], expected)
    (wanted,) = torch.autograd.grad(log_sum, case.leaves[:1])
    torch.testing.assert_close(marginals(case.scores, case.structure), wanted)


def test_expected_transitions():
    case = make_case("chain constrained")
    wanted = torch.autograd.grad(case.values.logsumexp(0), case.leaves[1])[0]
    _, pairs = marginals(case.scores, case.structure, transitions=True)
    torch.testing.assert_close(pairs[0], wanted)
    assert pairs[0, 0, 1] == 0.0  # forbidden


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("function", (log_partition, marginals, entropy))
def test_gradcheck(name, function):
    case = make_case(name)

    def value(*leaves):
        return function(_rebuilt(case, leaves), case.structure)

    assert torch.autograd.gradcheck(value, case.leaves)


def test_gradients_of_extreme_scores():
    """Derivatives of marginals where plain exponentials overflow."""
    case = make_case("chain")
    large = [(300.0 * leaf).detach().requires_grad_() for leaf in case.leaves]
    along = torch.randn(1, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = (marginals(_rebuilt(case, large), case.structure) * along).sum()
    for slope in torch.autograd.grad(found, large):
        assert torch.isfinite(slope).all()


@pytest.mark.parametrize("name", MAKERS)
def test_topk_are_the_best_outputs(name):
    case = make_case(name)
    k = len(case.outputs) + 2
    labels, values = topk(case.scores, case.structure, k)
    order = case.values.detach().sort(descending=True)
    torch.testing.assert_close(values[0, :-2], order.values)
    assert torch.isinf(values[0, -2:]).all()
    for place, output in enumerate(order.indices.tolist()):
        assert tuple(labels[place].reshape(-1).long().tolist()) == case.outputs[output]
    assert (labels[-1] == (0 if name == "subset" else -1)).all()


@pytest.mark.parametrize("structure", ("permutation", "arborescence"))
def test_topk_of_ragged_batches(structure):
    """Fewer outputs than k, and more, in one batch; few of many outputs."""
    generator = torch.Generator().manual_seed(0)
    wide = int(structure == "arborescence")
    tables = [torch.randn(n, n + wide, generator=generator) for n in (2, 1, 6)]
    labels, values = topk(tables, structure, 5)
    for i, table in enumerate(tables):
        (alone, own), n = topk(table[None], structure, 5), int((values[i] > -torch.inf).sum())
        torch.testing.assert_close(values[i], own[0])
        seen = {tuple(each[i].tolist()) for each in labels[:n]}
        assert n == len(seen) == min(5, 2 if i == 0 else 1 if i == 1 else 5)
        for place in range(n):
            assert labels[place][i].tolist() == alone[place][0].tolist()
            total = table.gather(1, labels[place][i][:, None]).sum()
            torch.testing.assert_close(values[i, place], total)
        assert all((each[i] == -1).all() for each in labels[n:])


def test_sums_over_many_permutations_are_refused():
    large = torch.zeros(2, 13, 13)
    for answer in (marginals, log_partition, entropy, sample):
        with pytest.raises(ValueError, match="at most 12 rows; example 0 has 13"):
            answer(large, "permutation")
    with pytest.raises(ValueError, match="at most 12 rows; example 0 has 13"):
        CRFLoss("permutation")(large, torch.arange(13).repeat(2, 1))


@pytest.mark.parametrize("name", MAKERS)
def test_draws_have_the_right_frequencies(name):
    case = make_case(name)
    n = 4000
    generator = torch.Generator().manual_seed(0)
    copies = [leaf.detach() for leaf in case.leaves]
    copies[0] = copies[0].expand(n, *copies[0].shape[1:])
    (drawn,) = sample(_rebuilt(case, copies), case.structure, generator=generator)
    number = {output: place for place, output in enumerate(case.outputs)}
    counts = np.zeros(len(case.outputs))
    for labels in drawn.reshape(n, -1).long().tolist():
        counts[number[tuple(labels)]] += 1
    likely = case.values.detach().softmax(0).numpy()
    # Five standard deviations of each count, and one draw for the rare ones.
    assert (np.abs(counts - n * likely) <= 5 * np.sqrt(n * likely) + 1).all()


def test_draws_repeat_with_their_generator():
    case = make_case("chain")
    first, second = (
        sample(case.scores, "chain", n_samples=5, generator=torch.Generator().manual_seed(3))
        for _ in range(2)
    )
    assert len(first) == 5
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


def test_the_number_of_threads_makes_no_difference():
    """Batches large enough for threads."""
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(40, 60, 26, dtype=torch.float64, generator=generator)
    before = torch.get_num_threads()
    answers = []
    try:
        for n_threads in (1, 3):
            torch.set_num_threads(n_threads)
            given = scores.clone().requires_grad_()
            value = log_partition(given, "chain")
            answers.append(
                (value, *torch.autograd.grad(value.sum(), given), decode(given, "chain"))
            )
    finally:
        torch.set_num_threads(before)
    for one, other in zip(*answers, strict=True):
        assert torch.equal(one, other)
