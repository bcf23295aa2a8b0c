"""
Parsing sentences
=================

Dependency trees: every word has a head, another word or the root. ``TreeParser`` scores all pairs
of words by features that it hashes from words and tags, and finds the best tree of all. The
sentences come from a small grammar; CoNLL-U files are read by ``maxmargin.read_conllu``.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import TreeParser, plot
from maxmargin.datasets_made import make_sentences

train, test = make_sentences(100, random_state=0), make_sentences(100, random_state=1)
model = TreeParser(hash_bits=14, random_state=0).fit(train.X, train.y)
print(f"words with their right head: {model.score(test.X, test.y):.3f}")
print(f"certified relative gap: {model.gap_ / model.primal_:.4f}")

# %%
# Half of the heads were never annotated: None. They are trained as hidden variables.

rng = np.random.RandomState(0)
partial = [[int(head) if k == 0 or rng.rand() < 0.5 else None for k, head in enumerate(heads)]
           for heads in train.y]  # fmt: skip
half = TreeParser(hash_bits=14, random_state=0).fit(train.X, partial)
print(f"from half of the heads: {half.score(test.X, test.y):.3f}")

# %%
# A new sentence.

longest = max(range(len(test.X)), key=lambda i: len(test.X[i]))
words = [token[0] for token in test.X[longest]]
axes = plot.tree(model.predict(test.X[longest : longest + 1])[0], words)
plt.show()
