"""Storage of the dual blocks: whatever is stored comes back, however the pool had to move."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from maxmargin._kernels.blocks import (
    NEGLIGIBLE,
    empty_blocks,
    expected_score,
    grow,
    has_room,
    load_block,
    mix_block,
    store_block,
)

# Most parts of a dual block are zero; some stand just below and just above what is kept.
parts = st.one_of(
    st.just(0.0),
    st.just(0.0),
    st.floats(0.0, 1.0),
    st.sampled_from([NEGLIGIBLE, 0.5 * NEGLIGIBLE, np.nextafter(NEGLIGIBLE, 1.0), -0.0]),
)


@st.composite
def histories(draw):
    """Sizes of the blocks, capacity at the start, and a sequence of (block, new value)."""
    sizes = draw(st.lists(st.integers(1, 40), min_size=1, max_size=6))
    expected = draw(st.integers(0, 60))
    stores = []
    for i in draw(st.lists(st.integers(0, len(sizes) - 1), max_size=25)):
        stores.append((i, draw(hnp.arrays(np.float64, sizes[i], elements=parts))))
    return sizes, expected, stores


def store(blocks, i, mu, found):
    """Store a block in a pool that grows when it must."""
    needed = np.count_nonzero(mu > NEGLIGIBLE)
    if not has_room(blocks, needed):
        blocks = grow(blocks, needed)
    store_block(blocks, i, mu, found)
    return blocks


def assert_holds(blocks, model, sizes):
    """Every block reads as the model says, over whatever stood in the target before."""
    for i, size in enumerate(sizes):
        out = np.full(size, np.nan)
        load_block(blocks, i, out)
        np.testing.assert_array_equal(out, model.get(i, np.zeros(size)))


def assert_sound(blocks):
    """Places of the blocks do not overlap and lie within the used part of the pool."""
    assert len(blocks.index) == len(blocks.value)
    assert blocks.used[0] <= len(blocks.index)
    assert (blocks.count <= blocks.room).all()
    owner = np.zeros(blocks.used[0], int)
    for first, room in zip(blocks.start, blocks.room, strict=True):
        assert first + room <= blocks.used[0]
        owner[first : first + room] += 1
    assert owner.max(initial=0) <= 1


@settings(max_examples=100)
@given(histories())
def test_stored_blocks_come_back(history):
    sizes, expected, stores = history
    blocks = empty_blocks(len(sizes), expected)
    found = np.empty(max(sizes), np.int32)
    model = {}
    for i, mu in stores:
        given_mu = mu.copy()
        blocks = store(blocks, i, mu, found)
        np.testing.assert_array_equal(mu, given_mu)
        model[i] = np.where(mu > NEGLIGIBLE, mu, 0.0)
        assert_holds(blocks, model, sizes)
        assert_sound(blocks)


def test_the_pool_grows_and_stays_near_what_it_holds():
    random = np.random.RandomState(0)
    n, size = 50, 30
    blocks = empty_blocks(n, 0)
    first_length = len(blocks.index)
    found = np.empty(size, np.int32)
    model = {}
    for _ in range(2000):
        i = random.randint(n)
        mu = random.random_sample(size) * (random.random_sample(size) < random.random_sample())
        blocks = store(blocks, i, mu, found)
        model[i] = mu
    assert_holds(blocks, model, [size] * n)
    assert_sound(blocks)
    assert len(blocks.index) > first_length
    # A block has capacity for at most 3/2 of the most it ever held, plus 2; the pool, 3/2 of that.
    assert len(blocks.index) <= 1.5 * n * (1.5 * size + 2) + 1.5 * size + 2


def test_a_block_that_fits_its_place_is_not_moved():
    blocks = empty_blocks(2, 100)
    found = np.empty(10, np.int32)
    blocks = store(blocks, 0, np.full(10, 0.1), found)
    blocks = store(blocks, 1, np.full(10, 0.1), found)
    used, start = blocks.used[0], blocks.start.copy()
    for kept in range(10, -1, -1):
        mu = np.zeros(10)
        mu[:kept] = 0.5
        blocks = store(blocks, 0, mu, found)
        assert blocks.used[0] == used
        assert blocks.count[0] == kept
    np.testing.assert_array_equal(blocks.start, start)


def test_blocks_of_many_parts_keep_only_what_is_not_zero():
    size = 5000
    blocks = empty_blocks(1, 16)
    mu = np.zeros(size)
    mu[[0, 7, 8, 63, 64, 4995, 4999]] = np.arange(1.0, 8.0)
    blocks = store(blocks, 0, mu, np.empty(size, np.int32))
    assert blocks.count[0] == 7
    assert blocks.nbytes < 1000
    assert_holds(blocks, {0: mu}, [size])


@settings(max_examples=100)
@given(st.data())
def test_mixing_with_an_output_is_the_dense_formula(data):
    sizes = data.draw(st.lists(st.integers(1, 30), min_size=1, max_size=4))
    blocks = empty_blocks(len(sizes), data.draw(st.integers(0, 40)))
    found, places = np.empty(max(sizes), np.int32), np.full(max(sizes), -1, np.int32)
    model = [np.zeros(size) for size in sizes]
    for _ in range(data.draw(st.integers(1, 20))):
        i = data.draw(st.integers(0, len(sizes) - 1))
        chosen = st.lists(st.integers(0, sizes[i] - 1), min_size=1, max_size=sizes[i])
        output = np.array(data.draw(chosen), np.int32)  # a part may come twice
        share = data.draw(st.sampled_from([0.0, 1e-17, 0.3, 1.0]) | st.floats(0.0, 1.0))
        if not has_room(blocks, blocks.count[i] + len(output)):
            blocks = grow(blocks, blocks.count[i] + len(output))
        mix_block(blocks, i, output, share, places)
        model[i] = (1.0 - share) * model[i]
        np.add.at(model[i], output, share)
        assert (places == -1).all()
        assert_sound(blocks)
    for i, size in enumerate(sizes):
        out, scores = np.full(size, np.nan), np.arange(1.0, size + 1.0)
        load_block(blocks, i, out)
        np.testing.assert_allclose(out, model[i], rtol=1e-12, atol=20 * NEGLIGIBLE)
        assert np.isclose(expected_score(blocks, i, scores), out @ scores, rtol=1e-12, atol=1e-13)
        blocks = store(blocks, i, out, found)
