"""
Dependency trees with a biaffine network
========================================

A recurrent network scores every pair of a word and a head, and losses over whole trees train it:
that of a CRF over all trees, whose partition function is a determinant, and max-margin, whose most
violated tree is found by Chu-Liu and Edmonds. Labels of arcs are trained beside it.
"""

from collections import Counter

import matplotlib.pyplot as plt
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from maxmargin import read_conllu
from maxmargin.datasets import data_folder
from maxmargin.torch import CRFLoss, MaxMarginLoss, decode

EPOCHS, LONGEST = 5, 25
sentences = {
    part: [
        s
        for s in read_conllu(data_folder() / f"ud_english_ewt_{part}.conllu.gz")
        if 2 <= len(s) <= LONGEST and min(s.heads) == 0
    ][:count]
    for part, count in (("train", 1500), ("test", 400))
}


def numbers(values, fewest=2):
    """A number for every value that is frequent enough; 0 is padding, 1 the rest."""
    return {v: k + 2 for k, (v, n) in enumerate(Counter(values).most_common()) if n >= fewest}


words = numbers(w.lower() for s in sentences["train"] for w in s.form)
tags = numbers((t for s in sentences["train"] for t in s.upos), 1)
relations = numbers((r.split(":")[0] for s in sentences["train"] for r in s.deprel), 1)


def tensors(sentence):
    """Words, tags, heads and relations of a sentence."""
    rows = zip(sentence.form, sentence.upos, sentence.heads, sentence.deprel)
    return torch.tensor(
        [
            (words.get(w.lower(), 1), tags.get(t, 1), head, relations.get(r.split(":")[0], 1))
            for w, t, head, r in rows
        ]
    )


data = {part: [tensors(s) for s in found] for part, found in sentences.items()}


class Parser(nn.Module):
    """Scores of heads ``[sentence, word, head]``, head 0 being the root, and of relations."""

    def __init__(self, size=96):
        super().__init__()
        self.words = nn.Embedding(len(words) + 2, 64, padding_idx=0)
        self.tags = nn.Embedding(len(tags) + 2, 32, padding_idx=0)
        self.lstm = nn.LSTM(96, 64, batch_first=True, bidirectional=True)
        self.root = nn.Parameter(torch.zeros(1, 1, 128))
        self.as_word, self.as_head = nn.Linear(128, size), nn.Linear(128, size)
        self.biaffine = nn.Linear(size, size)
        self.alone = nn.Linear(size, 1)
        self.relation = nn.Bilinear(size, size, len(relations) + 2)

    def forward(self, batch):
        """Scores of all heads of all words; vectors of words and heads for the relations."""
        embedded = torch.cat([self.words(batch[..., 0]), self.tags(batch[..., 1])], -1)
        read, _ = self.lstm(nn.functional.dropout(embedded, 0.3, self.training))
        word = self.as_word(read).relu()
        head = self.as_head(torch.cat([self.root.expand(len(read), 1, -1), read], 1)).relu()
        scores = self.biaffine(word) @ head.transpose(1, 2) + self.alone(head).transpose(1, 2)
        return scores, word, head

    def relations_of(self, word, head, heads):
        """Scores of the relations of all words to given heads."""
        chosen = head.gather(1, heads[..., None].expand(-1, -1, head.shape[2]))
        return self.relation(word, chosen)


def train(loss):
    """Train a parser; returns attachment scores, unlabelled and labelled, after each epoch."""
    torch.manual_seed(0)
    parser, found = Parser(), []
    optimizer = torch.optim.AdamW(parser.parameters(), lr=3e-3)
    for _ in range(EPOCHS):
        parser.train()
        for chosen in torch.randperm(len(data["train"])).split(32):
            batch = pad_sequence([data["train"][i] for i in chosen], batch_first=True)
            mask, heads = batch[..., 0] > 0, batch[..., 2]
            scores, word, head = parser(batch)
            kinds = parser.relations_of(word, head, heads)
            labels = nn.functional.cross_entropy(kinds[mask], batch[..., 3][mask])
            optimizer.zero_grad()
            (loss(scores, heads, mask=mask) + labels).backward()
            nn.utils.clip_grad_norm_(parser.parameters(), 5.0)
            optimizer.step()
        found.append(evaluate(parser))
    return found


@torch.no_grad()
def evaluate(parser):
    parser.eval()
    right, labelled, total = 0, 0, 0
    for begin in range(0, len(data["test"]), 64):
        batch = pad_sequence(data["test"][begin : begin + 64], batch_first=True)
        mask = batch[..., 0] > 0
        scores, word, head = parser(batch)
        heads = decode(scores, "arborescence", mask=mask)
        kinds = parser.relations_of(word, head, heads.clamp(min=0)).argmax(-1)
        hit = (heads == batch[..., 2]) & mask
        right, total = right + int(hit.sum()), total + int(mask.sum())
        labelled += int((hit & (kinds == batch[..., 3])).sum())
    return right / total, labelled / total


# %%
# Two losses over trees.

results = {
    "tree CRF": train(CRFLoss("arborescence")),
    "max-margin": train(MaxMarginLoss("arborescence")),
}
for name, scores in results.items():
    print(f"{name}: UAS {scores[-1][0]:.3f}, LAS {scores[-1][1]:.3f}")

for name, scores in results.items():
    (line,) = plt.plot(range(1, EPOCHS + 1), [uas for uas, _ in scores], "o-", label=f"{name}, UAS")
    plt.plot(
        range(1, EPOCHS + 1), [las for _, las in scores], "o--", color=line.get_color(),
        label=f"{name}, LAS",
    )  # fmt: skip
plt.xlabel("epoch")
plt.ylabel("share of words, test sentences")
plt.legend()
plt.show()
