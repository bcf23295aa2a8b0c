"""Readers of data files: what they return, and what they say about files that are not right."""

from __future__ import annotations

import gzip
import os

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.files import FileError, Matrix, Sentences, Table, read
from maxmargin.files.prepare import Choices, follow, learn
from maxmargin.files.tokens import shape_of, token_features
from maxmargin.files.trees import write_trees

CSV = "width,colour,label\n1.5,red,a\n2,blue,b\n-3e1,red,a\n"


@pytest.fixture
def write(tmp_path):
    """Write a file and return its path."""

    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file


# --- tables ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", CSV),
        ("a.csv", CSV.replace("\n", "\r\n")),
        ("a.csv", "\ufeff" + CSV),
        ("a.csv", CSV.replace(",", ";")),
        ("a.tsv", CSV.replace(",", "\t")),
        ("a.csv", CSV.rstrip("\n")),
        ("a.csv", CSV.replace("\n", "\n\n")),
        ("a.csv.gz", gzip.compress(CSV.encode())),
        ("a.csv", CSV.replace("red", '"red"')),
    ],
)
def test_one_table_in_many_dresses(write, name, content):
    table = read(write(name, content), "multiclass")
    assert isinstance(table, Table) and table.names == ["width", "colour", "label"]
    prepared = learn(table, "multiclass", Choices(scale=False))
    assert prepared.X.tolist() == [[1.5, 0.0, 1.0], [2.0, 1.0, 0.0], [-30.0, 0.0, 1.0]]
    assert prepared.y.tolist() == ["a", "b", "a"]
    assert prepared.recipe["feature_names"] == ["width", "colour=blue", "colour=red"]


def test_names_of_columns_are_guessed_and_can_be_denied(write):
    path = write("a.csv", "1,2,x\n3,4,y\n")
    assert read(path, "multiclass").names == ["column1", "column2", "column3"]
    assert read(path, "multiclass", header="yes").names == ["1", "2", "x"]
    assert len(read(write("b.csv", "a,b\nc,d\n"), "multiclass", header="no")) == 2


def test_recipe_does_the_same_to_new_data(write):
    prepared = learn(read(write("a.csv", CSV), "multiclass"), "multiclass", Choices())
    assert prepared.X[:, 0].mean() == pytest.approx(0.0, abs=1e-12)
    assert prepared.X[:, 0].std() == pytest.approx(1.0)
    assert set(prepared.X[:, 1]) == {0.0, 1.0}  # indicators stay as they are
    again = write("b.csv", "extra,colour,width\n1,blue,2\n")
    X, y = follow(read(again, "multiclass"), prepared.recipe)
    assert y is None and np.array_equal(X, prepared.X[1:2])
    unseen = write("c.csv", "colour,width\ngreen,2\n")
    with pytest.warns(UserWarning, match="1 values of categorical columns were never seen"):
        X, _ = follow(read(unseen, "multiclass"), prepared.recipe)
    assert X[0, 1:].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [(["1", "2", "1"], [1, 2, 1]), (["1.5", "1", "1.5"], [1.5, 1.0, 1.5]), (["1", "x", "2"], None)],
)
def test_labels_that_are_numbers_become_numbers(write, labels, expected):
    text = "x,label\n" + "".join(f"{k},{label}\n" for k, label in enumerate(labels))
    y = learn(read(write("a.csv", text), "multiclass"), "multiclass", Choices()).y
    assert y.tolist() == (labels if expected is None else expected)


def test_sets_of_labels_and_rankings_in_columns(write):
    text = "x,label:a,label:b\n1,0,1\n2,1,1\n"
    found = learn(read(write("a.csv", text), "multilabel"), "multilabel", Choices())
    assert found.y.tolist() == [[0, 1], [1, 1]] and found.params["classes"] == ["a", "b"]
    text = "x,labels\n1,b\n2,b;a\n3,\n"
    found = learn(read(write("b.csv", text), "multilabel"), "multilabel", Choices())
    assert found.y.tolist() == [[0, 1], [1, 1], [0, 0]] and found.params["classes"] == ["a", "b"]
    text = "x,rank:u,rank:v\n1,2,1\n2,1,2\n"
    found = learn(read(write("c.csv", text), "ranking"), "ranking", Choices())
    assert found.y.tolist() == [[2, 1], [1, 2]] and found.params["items"] == ["u", "v"]
    text = "x,ordering\n1,v>u\n2,u > v\n"
    found = learn(read(write("d.csv", text), "ranking"), "ranking", Choices())
    assert found.y.tolist() == [["v", "u"], ["u", "v"]]
    assert found.params["y_format"] == "orderings"


def test_sequences_in_a_table(write):
    text = "sequence,x,label\n7,1,a\n7,2,b\n8,3,a\n"
    table = read(write("a.csv", text), "sequence")
    found = learn(table, "sequence", Choices(scale=False))
    assert [x.tolist() for x in found.X] == [[[1.0], [2.0]], [[3.0]]]
    assert [y.tolist() for y in found.y] == [["a", "b"], ["a"]]
    scattered = read(write("b.csv", text + "7,4,b\n"), "sequence")
    with pytest.raises(FileError, match="must stand together"):
        learn(scattered, "sequence", Choices())


def test_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "a.parquet"
    columns = {"width": [1.5, 2.0, -30.0], "colour": ["red", "blue", "red"], "label": [0, 1, 0]}
    parquet.write_table(pyarrow.table(columns), path)
    found = learn(read(path, "multiclass"), "multiclass", Choices(scale=False))
    assert found.X.tolist() == [[1.5, 0.0, 1.0], [2.0, 1.0, 0.0], [-30.0, 0.0, 1.0]]
    assert found.y.tolist() == [0, 1, 0]
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(FileError, match="no whole Parquet file"):
        read(path, "multiclass")


# --- svmlight, ARFF, npz -----------------------------------------------------------------------


def test_svmlight(write):
    found = read(write("a.svm", "1 1:0.5 3:2 # comment\n-1 2:1\n"), "multiclass")
    assert isinstance(found, Matrix) and sp.issparse(found.X)
    assert found.X.toarray().tolist() == [[0, 0.5, 0, 2], [0, 0, 1, 0]]
    assert found.y.tolist() == [1, -1]
    prepared = learn(found, "multiclass", Choices())
    # Features are counted from 1 here: there is no feature 0.
    assert prepared.X.toarray().tolist() == [[0.5, 0, 2], [0, 1, 0]]
    assert prepared.recipe["feature_names"] == ["feature 1", "feature 2", "feature 3"]
    # The last features of a row may be 0, and then are not written.
    X, _ = follow(read(write("b.svm", "1 1:1\n"), "multiclass"), prepared.recipe)
    assert X.toarray().tolist() == [[1, 0, 0]]
    with pytest.warns(UserWarning, match="up to number 9"):
        X, _ = follow(read(write("c.svm", "1 1:1 9:1\n"), "multiclass"), prepared.recipe)
    assert X.toarray().tolist() == [[1, 0, 0]]
    with pytest.warns(UserWarning, match="features with the number 0"):
        X, _ = follow(read(write("d.svm", "1 0:5 1:1\n"), "multiclass"), prepared.recipe)
    assert X.toarray().tolist() == [[1, 0, 0]]


def test_svmlight_with_several_labels(write):
    found = read(write("a.svm", "3,17 1:1\n 2:1\n17 1:2\n"), "multilabel")
    assert found.label_names == [3, 17] and found.y.tolist() == [[1, 1], [0, 0], [0, 1]]
    prepared = learn(found, "multilabel", Choices())
    with pytest.warns(UserWarning, match="1 labels are unknown"):
        _, y = follow(read(write("b.svm", "17,5 1:1\n"), "multilabel"), prepared.recipe)
    assert y.tolist() == [[0, 1]]


ARFF = """% comment
@RELATION 'name'
@attribute 'the width' numeric
@attribute colour {red, 'dark blue'}
@attribute A {0,1}
@attribute B {0,1}
@data
1.5,red,0,1
2,'dark blue',1,1
"""
XML = '<labels xmlns="x"><label name="A"></label><label name="B"></label></labels>'


def test_arff_with_labels_of_mulan(write):
    path = write("set-train.arff", ARFF)
    write("set.xml", XML)
    found = learn(read(path, "multilabel"), "multilabel", Choices(scale=False))
    assert found.X.tolist() == [[1.5, 0.0, 1.0], [2.0, 1.0, 0.0]]
    assert found.recipe["feature_names"] == ["the width", "colour=dark blue", "colour=red"]
    assert found.y.tolist() == [[0, 1], [1, 1]] and found.params["classes"] == ["A", "B"]


@pytest.mark.parametrize(
    ("option", "targets"), [("-C 2", ["the width", "colour"]), ("-C -2", ["A", "B"])]
)
def test_arff_with_labels_of_meka(write, option, targets):
    path = write("a.arff", ARFF.replace("'name'", f"'name: {option}'"))
    assert read(path, "multilabel").targets == targets


def test_sparse_arff(write):
    header, rows = ARFF.split("@data\n")
    header = header.replace("@attribute colour {red, 'dark blue'}\n", "@attribute n numeric\n")
    path = write("set.arff", header + "@data\n{0 1.5, 3 1}\n{}\n{2 1,3 1}\n")
    write("set.xml", XML)
    found = read(path, "multilabel")
    assert found.X.toarray().tolist() == [[1.5, 0.0], [0.0, 0.0], [0.0, 0.0]]
    assert found.y.tolist() == [[0, 1], [0, 0], [1, 1]] and found.label_names == ["A", "B"]
    with_class = write(
        "b.arff", "@relation r\n@attribute x real\n@attribute c {u,v}\n@data\n{0 1}\n{1 v}\n"
    )
    assert read(with_class, "multiclass").y.tolist() == ["u", "v"]


def test_npz_of_every_kind(tmp_path):
    path = tmp_path / "a.npz"
    X = np.arange(8.0).reshape(4, 2)
    np.savez(path, X=X, y=[0, 1, 1, 0], class_names=["u", "v"], is_train=[1, 1, 0, 1])
    assert read(path, "multiclass").y.tolist() == ["u", "v", "v", "u"]
    assert read(path, "multiclass", part="test").X.tolist() == [[4.0, 5.0]]
    Y = np.array([[1, 0, 1], [0, 0, 1]])
    matrix = sp.csr_matrix([[0, 2.0], [1.0, 0]])
    np.savez(
        path, X_data=matrix.data, X_indices=matrix.indices.astype(np.uint16),
        X_indptr=matrix.indptr, X_shape=matrix.shape, Y_packed=np.packbits(Y, axis=1), n_labels=3,
    )  # fmt: skip
    found = read(path, "multilabel")
    assert found.X.toarray().tolist() == [[0, 2], [1, 0]] and found.y.tolist() == Y.tolist()
    np.savez(path, X=X, rank=[[0, 1]] * 4)
    assert read(path, "ranking").y_format == "ranks"
    np.savez(path, X=X, labels=list("abba"), offsets=[0, 3, 4])
    found = read(path, "sequence")
    assert [len(x) for x in found.X] == [3, 1] and found.y[1].tolist() == ["a"]
    np.savez(
        path, X=X, y=[0, 1, 2, 0], class_names=["u", "v"], node_offsets=[0, 3, 4],
        edges=[[0, 1], [1, 2]], edge_offsets=[0, 2, 2], edge_X=[[1.0], [2.0]],
    )  # fmt: skip
    prepared = learn(read(path, "graph"), "graph", Choices(scale=False))
    assert prepared.y[0].tolist() == ["u", "v", "void"] and prepared.params == {"void": "void"}
    nodes, edges, features = prepared.X[0]
    assert nodes.shape == (3, 2) and edges.tolist() == [[0, 1], [1, 2]]
    assert features.tolist() == [[1.0], [2.0]]


def test_npz_never_reads_pickles(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, X=np.array([{"a": 1}], object), y=[1])
    with pytest.raises(FileError, match="arrays of objects .* are not read"):
        read(path, "multiclass")


# --- tokens ------------------------------------------------------------------------------------


def test_conll(write):
    path = write("a.txt.gz", gzip.compress(b"The DT B\r\ncat NN I\r\n\r\n\r\nRun VB O\r\n"))
    found = read(path, "sequence")
    assert isinstance(found, Sentences)
    prepared = learn(found, "sequence", Choices())
    assert [y.tolist() for y in prepared.y] == [["B", "I"], ["O"]]
    assert prepared.X[0][1]["word"] == "cat" and prepared.X[0][1]["column2[-1]"] == "DT"
    X, y = follow(read(write("b.conll", "The DT\n"), "sequence"), prepared.recipe)
    assert y is None and X == [token_features([["The", "DT"]])]
    with pytest.raises(FileError, match="tokens have 1 columns"):
        follow(read(write("c.conll", "The\n"), "sequence"), prepared.recipe)


def test_features_of_a_token():
    found = token_features([["Don-7"], ["ran"]])
    assert shape_of("Don-7") == "Xxx-9" and shape_of("ABCDE12345") == "XX99"
    assert found[0]["shape"] == "Xxx-9" and found[0]["word[-1]"] == "P1"
    assert found[0]["word[+2]"] == "S1" and found[0]["suffix2"] == "-7"
    assert found[1]["word[-1]|word"] == "Don-7|ran" and "prefix4" not in found[1]


CONLLU = """# text = Dogs don't bark
1\tDogs\tdog\tNOUN\t_\t_\t4\tnsubj\t_\t_
2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_
2\tdo\tdo\tAUX\t_\t_\t4\taux\t_\t_
3\tn't\tnot\tPART\t_\t_\t4\tadvmod\t_\t_
4\tbark\tbark\tVERB\t_\t_\t0\troot\t_\t_

"""


def test_conllu(write):
    path = write("a.conllu", CONLLU * 2)
    tagged = read(path, "sequence")
    assert tagged.rows[1] == [["Dogs", "NOUN"], ["do", "AUX"], ["n't", "PART"], ["bark", "VERB"]]
    assert tagged.lines == [1, 8]
    trees = read(path, "tree")
    assert trees.tokens[0].lemma == ("dog", "do", "not", "bark")
    assert trees.heads[0].tolist() == [4, 4, 4, 0]
    assert trees.labels[1] == ("nsubj", "aux", "advmod", "root")
    arcs = [list(zip(*pair, strict=True)) for pair in zip(trees.heads, trees.labels, strict=True)]
    assert write_trees(trees, arcs) == CONLLU * 2
    written = write_trees(trees, [[2, 0, 2, 2], [4, 4, 4, 0]])
    first, second = written.removesuffix("\n\n").split("\n\n")
    assert first.split("\n")[1] == "1\tDogs\tdog\tNOUN\t_\t_\t2\t_\t_\t_"
    assert first.split("\n")[2] == CONLLU.split("\n")[2]
    assert second.count("\t4\t_\t") == 3
    bare = read(
        write("b.conllu", CONLLU.replace("\t4\t", "\t_\t").replace("\t0\t", "\t_\t")), "tree"
    )
    assert bare.heads is None
    part = read(write("c.conllu", CONLLU + CONLLU.replace("\t4\t", "\t_\t")), "tree")
    assert [heads.tolist() for heads in part.heads] == [[4, 4, 4, 0], [-1, -1, -1, 0]]
    assert part.labels is None


# --- files that are not right --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "task", "said"),
    [
        ("a.csv", "", "multiclass", "the file is empty"),
        ("a.csv", "\n \n", "multiclass", "the file is empty"),
        ("a.csv", "a,b,label\n", "multiclass", "no examples"),
        ("a.csv", "a,label\n1,x\n2,y,z\n", "multiclass", "line 3: 3 fields, but line 1 has 2"),
        ("a.csv", "a,a\n1,x\n", "multiclass", "two columns have the name 'a'"),
        ("a.csv", 'a,b\n"1,x\n', "multiclass", "line 2"),
        ("a.csv", b"a,label\n1,caf\xe9\n", "multiclass", "line 2: byte 0xe9 is not utf-8"),
        ("a.csv", "a,label\n1,x\n".encode("utf-16"), "multiclass", "the file is UTF-16"),
        ("a.csv", b"a,label\n1,\0\n", "multiclass", "line 2: holds a zero byte"),
        ("a.csv.gz", gzip.compress(CSV.encode() * 99)[:-20], "multiclass", "truncated"),
        ("a.csv.gz", CSV, "multiclass", "no whole gzip archive"),
        ("a.svm", "1 1:2\n1 x:2\n", "multiclass", "line 2"),
        ("a.svm", "1,2 1:2\n", "multiclass", "line 1: .*several labels"),
        ("a.conll", "a B\nb\n", "sequence", "line 2: 1 columns, but the first token has 2"),
        ("a.conllu", "1\ta\tb\n", "tree", "line 1: expected 10 columns, .*received 3"),
        ("a.conllu", CONLLU.replace("\t0\t", "\t9\t"), "tree", "line 6: the head of word 4"),
        ("a.arff", "@relation x\n@attribute a numeric\n", "multiclass", "no @data line"),
        ("a.arff", "x,y\n", "multiclass", "line 1: expected @relation"),
        ("a.arff", ARFF + "1,red\n", "multiclass", "line 10: 2 values, but 4 attributes"),
        ("a.arff", ARFF + "1,pink,0,0\n", "multiclass", "line 10, attribute 'colour': 'pink'"),
        ("a.arff", ARFF.replace("numeric", "date"), "multiclass", "line 3.*type 'date'"),
        ("a.npz", "PK", "multiclass", "no whole npz archive"),
        ("a.parquet", "PAR1", "multiclass", "no whole Parquet file"),
        ("a.xyz", "1,2\n", "multiclass", "tells no format"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_with_the_place(write, name, content, task, said):
    with pytest.raises(FileError, match=said) as caught:
        read(write(name, content), task)
    assert name in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "choices", "said"),
    [
        ("x,label\n1,a\nsoon,b\n", {}, "line 3, column 'x': 'soon' is not a finite number"),
        ("x,label\n1,a\n,b\n", {}, "line 3, column 'x': the value is missing"),
        ("x,label\n1,a\nnan,b\n", {}, "line 3, column 'x': the value is missing"),
        ("x,label\n1,a\ninf,b\n", {}, "line 3, column 'x': 'inf' is not a finite number"),
        ("x,label\n1,a\n2,\n", {}, "line 3, column 'label': the label is missing"),
        ("x,label\n1,a\n", {"target": ("z",)}, "there is no column 'z'"),
        ("x,label\n1,a\n", {"drop": ("x",)}, "no column is left"),
        ("x,label\n1,a\n", {"drop": ("q",)}, "there is no column 'q'"),
        ("x,y\n" + "".join(f"1,{k / 7:.4f}\n" for k in range(60)), {}, "looks like a quantity"),
        ("n,label\n" + "".join(f"id{k},a\n" for k in range(99)), {}, "too many for categories"),
    ],
)  # fmt: skip
def test_bad_columns_are_refused_with_the_place(write, content, choices, said):
    table = read(write("a.csv", content), "multiclass")
    with pytest.raises(FileError, match=said):
        learn(table, "multiclass", Choices(**choices))


def test_large_files_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / "large.csv"
    path.touch()
    os.truncate(path, 1_100_000_000)  # a hole: it takes no space
    with pytest.raises(FileError, match=r"has 1\.1 GB, more than the limit of 1\.0 GB"):
        read(path, "multiclass")
    packed = tmp_path / "bomb.csv.gz"
    packed.write_bytes(gzip.compress(b"1,2\n" * 50_000))
    assert packed.stat().st_size < 10_000
    with pytest.raises(FileError, match="unpacked, the file has more than the limit"):
        read(packed, "multiclass", max_size=100_000)


def test_missing_files_and_folders(tmp_path):
    with pytest.raises(FileError, match="there is no such file"):
        read(tmp_path / "a.csv", "multiclass")
    with pytest.raises(FileError, match="is a folder"):
        read(tmp_path, "multiclass")
    (tmp_path / "b").write_text("x")
    with pytest.raises(FileError, match="a part of the path is a file"):
        read(tmp_path / "b" / "c.csv", "multiclass")
