"""Settings of the documentation: ``make docs`` builds it into ``docs/_build``."""

from __future__ import annotations

import os
import re
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("MPLBACKEND", "Agg")
ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

import maxmargin  # noqa: E402
from maxmargin.datasets import data_folder  # noqa: E402

project = "maxmargin"
author = "the maxmargin developers"
project_copyright = author
version = release = maxmargin.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
# Formulas are MathML, which browsers draw: no network is needed to build or to read.
html_math_renderer = "mathml"
templates_path = ["_templates"]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["_build", "_templates", "results/quick", "**/README.txt", "generated/*.txt"]
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False
autodoc_typehints = "none"
# Inherited methods are asked for by the template of classes: a default here would win over it.
autodoc_default_options = {"members": True}

# Interfaces to torch are described without it, too.
autodoc_mock_imports = [] if find_spec("torch") else ["torch"]

# From simple to special.
EXAMPLES = (
    "sequences", "multiclass_max_min", "ordinal", "probabilities", "multilabel", "rankings",
    "grids", "matching", "trees", "certificates", "hidden_labels", "consistency", "label_noise",
    "own_structure", "own_latent", "torch_letters", "torch_tagger", "torch_parser",
    "torch_label_noise",
)  # fmt: skip


def order_of_example(filename):
    """Place of an example in the gallery; one that is not listed is an error."""
    return EXAMPLES.index(Path(filename).stem)


# Examples with networks need torch, and real data.
_LEFT_OUT = r"__init__\.py"
if not (find_spec("torch") and data_folder()):
    _LEFT_OUT += r"|torch_\w+\.py"

sphinx_gallery_conf = {
    "examples_dirs": str(ROOT / "examples"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"\.py$",
    "ignore_pattern": _LEFT_OUT,
    "within_subsection_order": order_of_example,
    "download_all_examples": False,
    "show_memory": False,
    "remove_config_comments": True,
    "min_reported_time": 0,
    "abort_on_example_error": True,
}
warnings.filterwarnings("ignore", message=".*non-interactive.*")

html_theme = "pydata_sphinx_theme"
html_title = "maxmargin"
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_show_sourcelink = False
html_static_path = ["_static"]
html_css_files = ["style.css"]
suppress_warnings = ["config.cache"]


def _inline_formula(translator, node):
    """A formula in a line of text."""
    _write_mathml(translator, node, as_block=False)


def _formula(translator, node):
    """A formula in a line of its own, which scrolls where it is too wide."""
    translator.body.append('<div class="formula">')
    _write_mathml(translator, node, as_block=True, end="</div>")


def _write_mathml(translator, node, as_block, end=""):
    from docutils import nodes
    from docutils.utils.math.latex2mathml import tex2mathml

    translator.body.append(tex2mathml(node.astext(), as_block=as_block) + end)
    raise nodes.SkipNode


# What is no prose: code, and formulas that are marked as such.
_LITERAL = re.compile(r"(```.*?```|`[^`]*`|\$\$.*?\$\$|^ {4}.*?$)", re.DOTALL | re.MULTILINE)
_NAME = r"(?<!\w)((?:arg)?(?:min|max)|[^\W\d_])"
_INDEX = re.compile(_NAME + r"_(?:\{([^{}]*)\}|([^\W_]{1,2})(?![^\W_]))")


def _lower_indices(app, docname, source):
    """Indices in the text of the page on mathematics, x_i, are set lower."""
    if docname == "mathematics":
        parts = _LITERAL.split(source[0])
        parts[::2] = [_INDEX.sub(r"\1<sub>\2\3</sub>", part) for part in parts[::2]]
        source[0] = "".join(parts)


def _skip_routing(app, what, name, member, skip, options):
    """Leave out what scikit-learn adds to every estimator: its text refers to its own pages."""
    theirs = name.endswith("_request") or name in ("get_metadata_routing", "set_output")
    return True if theirs else None


def _link_gallery(app, docname, source):
    """Links to files of examples open their pages in the gallery, and others stay in the build."""
    up = "../" * docname.count("/")

    def page(match):
        built = not re.search(_LEFT_OUT, f"{match.group(1)}.py")
        return f"]({up}auto_examples/{match.group(1)}.rst)" if built else match.group()

    source[0] = re.sub(r"\]\((?:\.\./)+examples/(\w+)\.py\)", page, source[0])


def setup(app):
    """Formulas as MathML, no methods that route metadata, links to the gallery."""
    app.connect("source-read", _link_gallery)
    app.connect("source-read", _lower_indices)
    app.connect("autodoc-skip-member", _skip_routing)
    app.add_html_math_renderer("mathml", (_inline_formula, None), (_formula, None))
