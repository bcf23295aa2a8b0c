"""
Names in sentences
==================

Sequence labelling from feature dicts, as for CRFsuite: names of places and people in a few
sentences. The BIO constraints hold in training and in prediction: "I-PER" can only follow "B-PER"
or "I-PER", whatever the weights say.
"""

import matplotlib.pyplot as plt
import numpy as np

from maxmargin import SequenceLabeler

SENTENCES = """
Ada/B-PER Lovelace/I-PER lived/O in/O London/B-LOC
Emmy/B-PER Noether/I-PER taught/O in/O New/B-LOC York/I-LOC and/O Erlangen/B-LOC
the/O train/O to/O San/B-LOC Marino/I-LOC was/O late/O
Kurt/B-PER visited/O Princeton/B-LOC
the/O letters/O of/O Sofia/B-PER Kovalevskaya/I-PER came/O from/O Stockholm/B-LOC
Alan/B-PER Turing/I-PER walked/O to/O Cambridge/B-LOC
she/O lived/O in/O New/B-LOC Haven/I-LOC
Grace/B-PER Hopper/I-PER was/O born/O in/O New/B-LOC York/I-LOC
"""


def features(words):
    """One dict per word: any strings, numbers or booleans."""
    return [
        {
            "word": word.lower(),
            "capital": word[0].isupper(),
            "before": words[t - 1].lower() if t else "<start>",
            "ending": word[-2:],
        }
        for t, word in enumerate(words)
    ]


lines = SENTENCES.strip().splitlines()
tagged = [[pair.split("/") for pair in line.split()] for line in lines]
X = [features([word for word, _ in sentence]) for sentence in tagged]
y = [[tag for _, tag in sentence] for sentence in tagged]

# %%
# Training, with the certificate that comes with it.

model = SequenceLabeler(constraints="bio", tol=0.001, random_state=0).fit(X, y)
print(f"{model.status_} after {model.n_iter_} passes, gap {model.gap_:.1e}")

# %%
# A new sentence; and the same with one label known: the rest adapts.

new = "Emmy Hopper lived in San Haven".split()
print(list(zip(new, model.predict([features(new)])[0].tolist())))
partial = [None, None, None, None, "B-PER", None]
print(list(zip(new, model.predict([features(new)], partial_y=[partial])[0].tolist())))

# %%
# What was learnt about neighbours; forbidden transitions are grey.

weights = np.where(model.allowed_transitions_, model.transitions_, np.nan)
figure, axes = plt.subplots(figsize=(4.5, 3.5), layout="constrained")
size = np.nanmax(np.abs(weights))
colours = plt.get_cmap("RdBu").with_extremes(bad="lightgrey")
image = axes.imshow(weights, cmap=colours, vmin=-size, vmax=size)
axes.set_xticks(range(len(model.classes_)), model.classes_, rotation=45)
axes.set_yticks(range(len(model.classes_)), model.classes_)
axes.set_xlabel("next label")
axes.set_ylabel("label")
figure.colorbar(image, label="weight")
plt.show()
