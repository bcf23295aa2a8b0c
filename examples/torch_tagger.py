"""
Parts of speech with a recurrent network
========================================

A bidirectional LSTM reads the words of a sentence and scores their parts of speech; a chain CRF on
top knows which tags follow each other. Words and endings have embeddings that are learnt from
scratch, from some sentences of the English Web Treebank. Training stops when held-out sentences do
not get better.
"""

from collections import Counter

import matplotlib.pyplot as plt
import numpy as np
from torch import nn

from maxmargin import read_conllu
from maxmargin.datasets import data_folder
from maxmargin.torch import NeuralSequenceLabeler

sentences = {
    part: read_conllu(data_folder() / f"ud_english_ewt_{part}.conllu.gz")[:count]
    for part, count in (("train", 2500), ("dev", 400), ("test", 600))
}

# %%
# Each word is two numbers: that of the word, and that of its last three letters; 0 is padding, and
# 1 stands for what was not seen twice.


def numbers(values):
    """A number for every value that occurs at least twice."""
    return {value: k + 2 for k, (value, n) in enumerate(Counter(values).most_common()) if n > 1}


words = numbers(w.lower() for s in sentences["train"] for w in s.form)
endings = numbers(w[-3:] for s in sentences["train"] for w in s.form)


def encode(sentence):
    return np.array([(words.get(w.lower(), 1), endings.get(w[-3:], 1)) for w in sentence.form])


X = {part: [encode(s) for s in found] for part, found in sentences.items()}
y = {part: [list(s.upos) for s in found] for part, found in sentences.items()}


class Tagger(nn.Module):
    """Embeddings, a bidirectional LSTM, scores of the tags."""

    def __init__(self, n_classes):
        super().__init__()
        self.words = nn.Embedding(len(words) + 2, 64, padding_idx=0)
        self.endings = nn.Embedding(len(endings) + 2, 32, padding_idx=0)
        self.dropout = nn.Dropout(0.3)
        self.lstm = nn.LSTM(96, 64, batch_first=True, bidirectional=True)
        self.out = nn.Linear(128, n_classes)

    def forward(self, pairs, mask):
        """From (sentences, words, 2) to (sentences, words, tags)."""
        from torch import cat
        from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

        inputs = self.dropout(cat([self.words(pairs[..., 0]), self.endings(pairs[..., 1])], -1))
        packed = pack_padded_sequence(
            inputs, mask.sum(1).cpu(), batch_first=True, enforce_sorted=False
        )
        found, _ = pad_packed_sequence(self.lstm(packed)[0], batch_first=True)
        return self.out(self.dropout(found))


model = NeuralSequenceLabeler(
    Tagger, pass_mask=True, lr=4e-3, max_epochs=8, patience=2, random_state=0
)
model.fit(X["train"], y["train"], validation=(X["dev"], y["dev"]))
print(f"{model.status_}, best epoch {model.best_epoch_}")
print(f"accuracy on test sentences: {model.score(X['test'], y['test']):.3f}")

# %%
# How training went, and what the chain learnt about neighbours.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
left.plot([epoch.number for epoch in model.history_], [e.accuracy for e in model.history_], "o-")
left.set(xlabel="epoch", ylabel="accuracy on held-out sentences")
image = right.imshow(model.head_.transitions.detach(), cmap="RdBu_r")
right.set_xticks(range(len(model.classes_)), model.classes_, rotation=90, fontsize=7)
right.set_yticks(range(len(model.classes_)), model.classes_, fontsize=7)
right.set(xlabel="tag", ylabel="tag before")
figure.colorbar(image)
plt.tight_layout()
plt.show()
