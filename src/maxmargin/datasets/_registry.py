"""Which data sets there are, where they come from, and their checksums."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A data set by name.

    ``files`` are those of the data folder with their SHA-256; ``openml`` is a name and version
    there, for sets that can be fetched.
    """

    name: str
    task: str
    source: str  # "scikit-learn", "folder", or "openml"
    description: str
    files: tuple[tuple[str, str], ...] = ()
    openml: tuple[str, int] | None = None


# Part of scikit-learn: always there.
_BUNDLED = (
    ("iris", "multiclass", "flowers: 150 examples, 4 features, 3 classes (Fisher 1936)"),
    ("wine", "multiclass", "wines: 178 examples, 13 features, 3 classes (Forina)"),
    ("breast_cancer", "multiclass", "tumours: 569 examples, 30 features, 2 classes (Wolberg)"),
    ("digits", "multiclass", "digits of 8 x 8 pixels: 1797 examples, 10 classes (Kaynak)"),
    ("diabetes", "ordinal", "progress of diabetes in 5 steps: 442 examples, 10 features (Efron)"),
)

# name, task, description, files with their SHA-256, and name and version at OpenML
_FOLDER = (
    (
        "yeast",
        "multilabel",
        "functions of genes: 2417 examples, 103 features, 14 labels (Elisseeff, Weston 2001)",
        (("yeast.npz", "c5c050613d2e638dda8c973d0530cc41f28f7bb923ba33c600b72de3bdc79ef4"),),
        ("yeast", 4),
    ),
    (
        "scene",
        "multilabel",
        "scenes in pictures: 2407 examples, 294 features, 6 labels (Boutell et al. 2004)",
        (("scene.npz", "7693b1bf2b95f920155bcbc6b79d0b23b088730ded34dc3e05d2b6e19d2d8a50"),),
        ("scene", 4),
    ),
    (
        "rcv1",
        "multilabel",
        "news stories: 6000 examples, 47236 sparse features, 101 labels (Lewis et al. 2004)",
        (("rcv1subset1.npz", "2c3a438cf09b700090da1cfeffafec68af6be11c90e7c109b9c48f5ee61bb3c1"),),
        None,
    ),
    (
        "reuters_k500",
        "multilabel",
        "news stories: 6000 examples, 500 sparse features, 103 labels (Read 2010)",
        (("reuters_k500.npz", "e313555b7504ccbebfb15181c5850d7f5a2a484b56fc8bb6c552516f4ed82361"),),
        None,
    ),
    (
        "bibtex",
        "multilabel",
        "tags of publications: 7395 examples, 1836 sparse features, 159 labels (Katakis 2008)",
        (("bibtex.npz", "5ed92def2fa8051bc470c6243c8510b2d5c8f251fdb38ba6b6e71cc37315b2c8"),),
        None,
    ),
    (
        "segment",
        "multiclass",
        "image segments: 2310 examples, 19 features, 7 classes (Statlog)",
        (("uci_segment.npz", "575ff49ee7cb86968ad05495145c41e884124a1c34f0477bd24bab5dbec8ff5a"),),
        ("segment", 1),
    ),
    (
        "vehicle",
        "multiclass",
        "silhouettes of vehicles: 846 examples, 18 features, 4 classes (Statlog)",
        (("uci_vehicle.npz", "c6962c3b0cd92937e1ea5e14944a859584e0f86d5c4f214dc5399c46b794caa8"),),
        ("vehicle", 1),
    ),
    (
        "satimage",
        "multiclass",
        "satellite images: 6435 examples, 36 features, 6 classes (Statlog)",
        (("uci_satimage.npz", "2c169bff1ec7209e25acefb3067bb18ff25d20ce8e142c2c6560c63760bf4194"),),
        ("satimage", 1),
    ),
    (
        "letter",
        "multiclass",
        "printed letters: 20000 examples, 16 features, 26 classes (Frey, Slate 1991)",
        (("uci_letter.npz", "7853057a5bbcefe61a8d64e243620485833529db258a6aefa499c5ea29cb002d"),),
        ("letter", 1),
    ),
    (
        "mfeat_fac",
        "multiclass",
        "handwritten digits: 2000 examples, 216 features, 10 classes (Duin)",
        (
            (
                "uci_mfeat_fac.npz",
                "a4bd83499fdcf1b85ed0b3b6ddcbe44f9c61c53d29efd70bc7fac306aa62e8a1",
            ),
        ),
        None,
    ),
    (
        "wisconsin",
        "ordinal",
        "months to recurrence, in 5 steps: 194 examples, 32 features (Torgo)",
        (
            (
                "ord_wisconsin.npz",
                "5cfe7ab8eb28e77cf72f984c23f00ef5d22c52d1f6ad2b01071938388c8fec4d",
            ),
        ),
        None,
    ),
    (
        "stocks",
        "ordinal",
        "stock prices in 5 steps: 950 examples, 9 features (Torgo)",
        (("ord_stocks.npz", "9153913bb14cf3302740e3961c92ffc6fdb810a9cccaac072c786e933fbec5b7"),),
        None,
    ),
    (
        "machine_cpu",
        "ordinal",
        "speed of computers in 10 steps: 209 examples, 6 features (Torgo)",
        (
            (
                "ord_machine_cpu.npz",
                "e6ed97c19b2673a6b38ca8fa057f9d1947279fcb4f8e2fdd596784dfcb3a0e32",
            ),
        ),
        None,
    ),
    (
        "abalone",
        "ordinal",
        "age of abalones in 10 steps: 4177 examples, 10 features (Torgo)",
        (("ord_abalone.npz", "c55da7e4403a565f7d33104a77032720a0ace78195565cdfc50bb6bab3a8a8f3"),),
        None,
    ),
    (
        "auto_mpg",
        "ordinal",
        "thirst of cars in 10 steps: 392 examples, 7 features (Torgo)",
        (("ord_auto_mpg.npz", "e4e7e8f24a93f43c1d5d2b85f3e9290d9ca20dc4fe222a41eab7ac8a5bf2fa6f"),),
        None,
    ),
    (
        "ranking_glass",
        "ranking",
        "rankings of 6 labels: 214 examples, 9 features (Cheng et al. 2009)",
        (("lr_glass.npz", "d3ec6951c261fc9882e7018ed03f22ec7e79434cec240460aab4bbee63db22e5"),),
        None,
    ),
    (
        "ranking_bodyfat",
        "ranking",
        "rankings of 7 labels: 252 examples, 7 features (Cheng et al. 2009)",
        (("lr_bodyfat.npz", "1c1bf7b915684eb56d8ec1d7917d6c763afd3b19877a4d7db631ed4a9d0ad8e1"),),
        None,
    ),
    (
        "ranking_wine",
        "ranking",
        "rankings of 3 labels: 178 examples, 13 features (Cheng et al. 2009)",
        (("lr_wine.npz", "4b015e8144cca5052ae34cbd39aff7bee33204b003371d9e21f0bfa740dd877d"),),
        None,
    ),
    (
        "ranking_vowel",
        "ranking",
        "rankings of 11 labels: 528 examples, 10 features (Cheng et al. 2009)",
        (("lr_vowel.npz", "4c415de3c226ea285e89c19f5dbb14f634653800b84f0436617511a2c7c814c5"),),
        None,
    ),
    (
        "ranking_vehicle",
        "ranking",
        "rankings of 4 labels: 846 examples, 18 features (Cheng et al. 2009)",
        (("lr_vehicle.npz", "da3a8c9c1167d026f85b30457ef545984b7d9b25c885048b8b5f93aae38de4fe"),),
        None,
    ),
    (
        "ocr",
        "sequence",
        "handwritten words: 6877 words, 128 pixels a letter, 26 labels, ten folds (Kassel)",
        (("ocr_letters.npz", "b6673f71ac2840e0680af8242a4a091dc76f220d180d06835161bda8a2085a69"),),
        None,
    ),
    (
        "conll2000",
        "sequence",
        "chunks of sentences: 8936 + 2012 sentences, 22 labels (Tjong Kim Sang, Buchholz 2000)",
        (
            (
                "conll2000_train.txt.gz",
                "bb828b11822d90dd2189b9b2d81436f7f09f9d53cf2e3514ffc408cf90434e4f",
            ),
            (
                "conll2000_test.txt.gz",
                "e9b6ab142898d592b355518374e03cbca0d9678a125aee84876c7a3a6334ce5d",
            ),
        ),
        None,
    ),
    (
        "ud_english_ewt",
        "sequence",
        "parts of speech: 16622 sentences, 17 labels (Universal Dependencies, English EWT)",
        (
            (
                "ud_english_ewt_train.conllu.gz",
                "4861d76b9c49cb3524dfdf7d02e78c1d6a4c4e6fb892f9e6128cc671a6f195a8",
            ),
            (
                "ud_english_ewt_dev.conllu.gz",
                "24656b4a407808e7b9e42959b2e39e18ae5580bfbf3b27938d6873dabaed8845",
            ),
            (
                "ud_english_ewt_test.conllu.gz",
                "0506bfdbccef68634d5429369e67a7d4418b2340bd2b2ddcfca8373514af83bc",
            ),
        ),
        None,
    ),
    (
        "snakes",
        "graph",
        "snakes on grids: 300 grids, 11 labels along the snake (Nowozin et al. 2011)",
        (("snakes.npz", "a47a66258e7a86c9c5b0b74a7836ee4a1cd21a0a66f0296ffb95d8ca16f27982"),),
        None,
    ),
    (
        "msrc21",
        "graph",
        "superpixels of 591 images, 65 features, 21 classes (Shotton et al. 2006; own features)",
        (
            (
                "msrc21_superpixels.npz",
                "ca5428cd731a8649078677870550e262a0f933df8dfb04fca334ad7d797546b3",
            ),
        ),
        None,
    ),
)

# Only at OpenML.
_OPENML = (
    ("emotions", "multilabel", "emotions in music: 593 examples, 72 features, 6 labels", 4),
    ("birds", "multilabel", "birds by their song: 645 examples, 260 features, 19 labels", 4),
    ("enron", "multilabel", "topics of letters: 1702 examples, 1001 features, 53 labels", 4),
    ("glass", "multiclass", "kinds of glass: 214 examples, 9 features, 6 classes", 1),
    ("vowel", "multiclass", "spoken vowels: 990 examples, 11 classes", 2),
)

_TREES = next(files for name, _, _, files, _ in _FOLDER if name == "ud_english_ewt")
_TREE_TEXT = "dependency trees: the same 16622 sentences, heads of 254818 words"

ENTRIES: dict[str, Entry] = {
    **{n: Entry(n, task, "scikit-learn", text) for n, task, text in _BUNDLED},
    **{
        n: Entry(n, task, "folder", text, files, openml) for n, task, text, files, openml in _FOLDER
    },
    "ud_english_ewt_trees": Entry("ud_english_ewt_trees", "tree", "folder", _TREE_TEXT, _TREES),
    **{n: Entry(n, task, "openml", text, (), (n, v)) for n, task, text, v in _OPENML},
}
