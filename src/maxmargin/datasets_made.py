"""Small data sets made by documented recipes: the same numbers for the same seed, anywhere.

Each has something to find that no part of an example tells by itself: a grammar of words, labels
that exclude each other, smooth pictures, partners that only one can have.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

__all__ = [
    "Made",
    "make_label_sets",
    "make_matchings",
    "make_networks",
    "make_pictures",
    "make_rankings",
    "make_sentences",
    "make_words",
]


class Made(NamedTuple):
    """Inputs and outputs of examples, and the names that belong to them."""

    X: Any
    y: Any
    names: list[str] = []


def make_words(
    n: int = 300, *, noise: float = 0.4, part: str = "train", random_state: int = 0
) -> Made:
    """Words of handwritten digits, 4 to 9 long, with a hidden grammar.

    Only three digits may follow each digit, always the same ones. Each digit is a random image of
    scikit-learn's ``load_digits``, 8 x 8 pixels between 0 and 1, with normal noise of deviation
    ``noise`` on every pixel, so that many images cannot be read alone. ``part="train"`` uses the
    first half of the images and "test" the second.

    Returns
    -------
    made : Made
        ``X[i]`` is an array of shape (length, 64), ``y[i]`` the digits.
    """
    from sklearn.datasets import load_digits

    if part not in ("train", "test"):
        raise ValueError(f"part must be 'train' or 'test'; received {part!r}.")
    images, digits = load_digits(return_X_y=True)
    half = len(digits) // 2
    chosen = slice(None, half) if part == "train" else slice(half, None)
    images, digits = images[chosen] / 16.0, digits[chosen]
    grammar = np.random.RandomState(7)
    followers = [grammar.choice(10, 3, replace=False) for _ in range(10)]
    places = [np.flatnonzero(digits == digit) for digit in range(10)]
    rng = np.random.RandomState(random_state)
    X, y = [], []
    for _ in range(n):
        word = [rng.randint(10)]
        for _ in range(rng.randint(3, 9)):
            word.append(rng.choice(followers[word[-1]]))
        pixels = images[[rng.choice(places[digit]) for digit in word]]
        X.append(pixels + noise * rng.randn(*pixels.shape))
        y.append(np.array(word))
    return Made(X, y, [str(digit) for digit in range(10)])


_TOPICS = {  # topics of an article; the second holds wherever the first does
    "football": "sport", "tennis": "sport", "elections": "politics", "taxes": "politics",
    "planets": "science", "genes": "science",
}  # fmt: skip


def make_label_sets(n: int = 300, *, noise: float = 1.1, random_state: int = 0) -> Made:
    """Articles and their topics, of which some come together and some exclude each other.

    An article is about one or two of three fields (sport, politics, science), and about one of the
    two subjects of each of its fields, seldom both. So a subject implies its field, and subjects of
    one field nearly exclude each other. The 20 features are a random linear image of the nine
    labels with normal noise of deviation ``noise``.

    Returns
    -------
    made : Made
        ``X`` of shape (n, 20), ``y`` a list of sets of topics.
    """
    names = sorted({*_TOPICS, *_TOPICS.values()})
    rng = np.random.RandomState(random_state)
    image = np.random.RandomState(11).randn(len(names), 20) / np.sqrt(3.0)
    fields = sorted(set(_TOPICS.values()))
    y: list[set[str]] = []
    for _ in range(n):
        topics: set[str] = set()
        for field in rng.choice(fields, 1 + int(rng.rand() < 0.35), replace=False):
            subjects = [s for s, f in _TOPICS.items() if f == field]
            rng.shuffle(subjects)
            topics |= {str(field), *subjects[: 1 + int(rng.rand() < 0.08)]}
        y.append(topics)
    present = np.array([[name in topics for name in names] for topics in y], float)
    return Made(present @ image + noise * rng.randn(n, 20), y, names)


def make_rankings(
    n: int = 200, *, noise: float = 0.4, divided: bool = True, random_state: int = 0
) -> Made:
    """People who rank five drinks; what they like depends on six traits.

    A drink's appeal is a fixed random linear function of the traits plus its own popularity plus
    normal noise of deviation ``noise``; the ranking sorts by appeal. If ``divided``, coffee is
    another matter: whoever has a positive first trait puts it first (7 of 10 people) or last, and
    everybody else into the middle. A mean rank says nothing about such a drink, while scores of
    positions do; without it, rankings are what regression of the ranks is right for, and that is
    hard to beat.

    Returns
    -------
    made : Made
        ``X`` of shape (n, 6), ``y`` of shape (n, 5) with the ranks, 1 the best.
    """
    names = ["coffee", "juice", "lemonade", "tea", "water"]
    taste = np.random.RandomState(5)
    weights, popularity = taste.randn(6, 5), taste.randn(5)
    rng = np.random.RandomState(random_state)
    X = rng.randn(n, 6)
    appeal = X @ weights + popularity + noise * rng.randn(n, 5)
    if divided:
        extreme = np.where(rng.rand(n) < 0.7, np.inf, -np.inf)
        appeal[:, 0] = np.where(X[:, 0] > 0, extreme, np.median(appeal[:, 1:], axis=1))
    return Made(X, np.argsort(np.argsort(-appeal, axis=1), axis=1) + 1, names)


def make_matchings(n: int = 60, *, noise: float = 0.2, random_state: int = 0) -> Made:
    """Two pictures of the same 5 to 8 points, in another order.

    Points have four coordinates: the second picture shows the first two with normal noise of
    deviation ``noise``, and in the last two nothing but noise.

    Returns
    -------
    made : Made
        ``X[i]`` is a pair of arrays of shape (m, 4), ``y[i]`` the partner of each point.
    """
    rng = np.random.RandomState(random_state)
    X, y = [], []
    for _ in range(n):
        m = rng.randint(5, 9)
        points = rng.randn(m, 4)
        seen = points + noise * rng.randn(m, 4)
        seen[:, 2:] = rng.randn(m, 2)
        order = rng.permutation(m)
        X.append((points, seen[order]))
        y.append(np.argsort(order))
    return Made(X, y)


def make_pictures(
    n: int = 20, *, size: int = 16, noise: float = 0.8, random_state: int = 0
) -> Made:
    """Discs on a background: grey values with much noise.

    A disc of random centre and radius 3 to 5 has value 1 and the background 0, with normal noise
    of deviation ``noise`` on every cell.

    Returns
    -------
    made : Made
        ``X[i]`` of shape (size, size), ``y[i]`` the labels "disc" and "ground" of its cells.
    """
    rng = np.random.RandomState(random_state)
    row, column = np.indices((size, size))
    X, y = [], []
    for _ in range(n):
        centre, radius = rng.uniform(5, size - 5, 2), rng.uniform(3, 5)
        inside = (row - centre[0]) ** 2 + (column - centre[1]) ** 2 < radius**2
        X.append(inside + noise * rng.randn(size, size))
        y.append(np.where(inside, "disc", "ground"))
    return Made(X, y, ["disc", "ground"])


def make_networks(n: int = 40, *, noise: float = 1.2, random_state: int = 0) -> Made:
    """People in networks, who belong to one of three groups and mostly know their own.

    A network has 12 to 18 people; two of one group know each other with probability 0.5, others
    with 0.05. The three features of a person are 1 at the group, 0 elsewhere, plus normal noise of
    deviation ``noise``.

    Returns
    -------
    made : Made
        ``X[i]`` is a pair of features (m, 3) and edges, ``y[i]`` the groups of the people.
    """
    names = ["chess", "choir", "hiking"]
    rng = np.random.RandomState(random_state)
    X, y = [], []
    for _ in range(n):
        m = rng.randint(12, 19)
        group = rng.randint(3, size=m)
        same = group[:, None] == group[None]
        known = np.triu(rng.rand(m, m) < np.where(same, 0.5, 0.05), k=1)
        X.append((np.eye(3)[group] + noise * rng.randn(m, 3), np.argwhere(known)))
        y.append([names[g] for g in group])
    return Made(X, y, names)


_WORDS = {
    "DET": ("the", "a", "every"), "ADJ": ("small", "old", "green", "quick"),
    "NOUN": ("dog", "bird", "poet", "river", "telescope", "garden"),
    "VERB": ("sees", "likes", "follows", "paints"), "ADP": ("with", "near", "behind"),
    "ADV": ("often", "quietly"),
}  # fmt: skip


def make_sentences(n: int = 150, *, random_state: int = 0) -> Made:
    """Sentences of a small grammar with their dependency trees.

    A verb is the root and governs its subject, mostly an object, sometimes an adverb; nouns govern
    a determiner, up to two adjectives and sometimes a phrase with a preposition. After the object
    such a phrase may belong to the verb instead: mostly after "with", seldom after "behind". So
    nobody can find all heads.

    Returns
    -------
    made : Made
        ``X[i]`` is a list of pairs (word, tag), ``y[i]`` the head of each word, counted from 1; 0
        is the root.
    """
    rng = np.random.RandomState(random_state)
    X, y = [], []
    for _ in range(n):
        words: list[tuple[str, str]] = []
        heads: list[int] = []
        subject = _noun_phrase(rng, words, heads, 0.3)
        if rng.rand() < 0.4:
            _add(rng, words, heads, "ADV")
        verb = _add(rng, words, heads, "VERB")
        heads[subject - 1] = verb
        if words[verb - 2][1] == "ADV":
            heads[verb - 2] = verb
        if rng.rand() < 0.8:
            heads[_noun_phrase(rng, words, heads, 0.5, verb) - 1] = verb
        X.append(words)
        y.append(np.array(heads))
    return Made(X, y, list(_WORDS))


def _add(rng: np.random.RandomState, words: list, heads: list, tag: str) -> int:
    """Append a word; its number, from 1."""
    words.append((str(rng.choice(_WORDS[tag])), tag))
    heads.append(0)
    return len(words)


_TO_VERB = {"with": 0.8, "near": 0.5, "behind": 0.2}  # probabilities


def _noun_phrase(
    rng: np.random.RandomState, words: list, heads: list, more: float, verb: int = 0
) -> int:
    """Append a noun with what it governs; the number of the noun."""
    governed = [_add(rng, words, heads, "DET")]
    n_adjectives = rng.choice(3, p=[0.5, 0.4, 0.1])
    governed += [_add(rng, words, heads, "ADJ") for _ in range(n_adjectives)]
    noun = _add(rng, words, heads, "NOUN")
    if rng.rand() < more:
        preposition = _add(rng, words, heads, "ADP")
        to_verb = verb and rng.rand() < _TO_VERB[words[preposition - 1][0]]
        heads[preposition - 1] = verb if to_verb else noun
        heads[_noun_phrase(rng, words, heads, more / 3) - 1] = preposition
    for word in governed:
        heads[word - 1] = noun
    return noun
