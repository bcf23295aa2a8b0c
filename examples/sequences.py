"""Sequence labelling from feature dicts, as for CRFsuite, with BIO constraints.

Names of places and people in a few sentences. The constraints hold in training and in prediction:
"I-PER" can only follow "B-PER" or "I-PER", whatever the weights say.
"""

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
    """One dict a word: any strings, numbers or booleans."""
    return [
        {
            "word": word.lower(),
            "capital": word[0].isupper(),
            "before": words[t - 1].lower() if t else "<start>",
            "ending": word[-2:],
        }
        for t, word in enumerate(words)
    ]


def main():
    lines = SENTENCES.strip().splitlines()
    tagged = [[pair.split("/") for pair in line.split()] for line in lines]
    X = [features([word for word, _ in sentence]) for sentence in tagged]
    y = [[tag for _, tag in sentence] for sentence in tagged]

    model = SequenceLabeler(constraints="bio", tol=0.001, random_state=0).fit(X, y)
    print(f"{model.status_} after {model.n_iter_} passes, gap {model.gap_:.1e}")

    new = "Emmy Hopper lived in San Haven".split()
    print(list(zip(new, model.predict([features(new)])[0].tolist())))

    # Known labels are kept, and the rest adapts.
    partial = [None, None, None, None, "B-PER", None]
    print(list(zip(new, model.predict([features(new)], partial_y=[partial])[0].tolist())))


if __name__ == "__main__":
    main()
