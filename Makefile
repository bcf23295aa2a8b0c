# Everything here needs only make and Python 3.11 or newer; the rest goes into .venv.
#   make PYTHON=python3.13 VENV=.venv-313 test     uses another interpreter

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
# A stamp is older than pyproject.toml when an installation is out of date.
BASE := $(VENV)/.installed-base
DEV := $(VENV)/.installed-dev
DOCS := $(VENV)/.installed-docs
RAY := $(VENV)/.installed-ray
TORCH := $(VENV)/.installed-torch
# Most modules of the dependencies are never imported: Python compiles to bytecode what is, once.
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --no-compile
# uv takes a fifth of pip's time. Where it finds no index or a package is missing there, pip is asked.
UV := $(PY) -m uv pip install --quiet --python $(PY)
INSTALL = $(UV) $(WHAT) 2>/dev/null || $(PIP) $(WHAT)
ifdef PIP_INDEX_URL
export UV_DEFAULT_INDEX ?= $(PIP_INDEX_URL)
endif
unexport PYTHONDONTWRITEBYTECODE
# Processors whose code this machine can run: the oldest of its kind, one with AVX2, its own.
PROCESSORS := $(if $(filter x86_64 amd64,$(shell uname -m)),x86-64 haswell,generic) host
TORCH_VERSION := 2.13.0
# Further options or test files:  make test ARGS="tests/test_duality.py -x"
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo wheel test test-more test-torch test-ray test-all test-oldest test-portable bench docs lint format clean

help:  ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## */\t/' | expand -t 14

demo: $(BASE)  ## a short tour of the library
	@$(PY) -m maxmargin.demo

wheel: $(DEV)  ## build a wheel with prebuilt kernels, so that a first fit compiles nothing
	@$(PY) -m maxmargin._build
	@$(PY) -m build --wheel --no-isolation

test: $(DEV)  ## run the tests, but for those marked more or slow
	@$(PY) tests/run.py -m "not slow and not more" $(ARGS)

test-more: $(DEV)  ## run the tests that compile for themselves or start processes
	@$(PY) tests/run.py -m "more and not slow" $(ARGS)

test-ray: $(RAY)  ## run the tests on a Ray cluster of this machine
	@$(PY) -m pytest -q tests/ray_cluster.py $(ARGS)

test-all: $(DEV)  ## run all tests
	@$(PY) tests/run.py $(ARGS)

test-torch: $(TORCH)  ## run the tests of maxmargin.torch with a CPU build of torch
	@$(PY) tests/run.py tests/neural -m "not slow" $(ARGS)

test-oldest: | $(PY)  ## run the tests with the oldest supported versions of the dependencies
	@test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	@echo "installing the oldest versions into .venv-oldest (about a minute the first time)"
	@.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check \
	    -c oldest.txt -e '.[dev,io,plot,cli,parquet]'
	@.venv-oldest/bin/python tests/run.py $(ARGS)

# Each processor has its own cache of compiled code. All are tested, also after a failure.
test-portable: $(DEV)  ## run the tests with code for several processors, old and new
	@unset NUMBA_CACHE_DIR NUMBA_CPU_NAME NUMBA_CPU_FEATURES; export MAXMARGIN_PREBUILT=0; failed=; \
	for name in $(PROCESSORS); do \
	    echo "code for the processor: $$name"; \
	    if test $$name != host; then export NUMBA_CPU_NAME=$$name NUMBA_CPU_FEATURES=; \
	    else unset NUMBA_CPU_NAME NUMBA_CPU_FEATURES; fi; \
	    $(PY) tests/run.py -m "not slow" $(ARGS) || failed="$$failed $$name"; \
	done; \
	test -z "$$failed" || { echo "failed with code for:$$failed" >&2; exit 1; }

bench: $(DEV)  ## compare with other libraries on this machine
	@$(PY) -m benchmarks

docs: $(DOCS) $(TORCH)  ## build the documentation into docs/_build, examples included
	@$(PY) -m sphinx -W --keep-going -q -b html docs docs/_build
	@echo "docs/_build/index.html"

lint: $(DEV)  ## style, types and prose
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) tests/prose.py

format: $(DEV)  ## let ruff repair what it can
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

clean:  ## remove the environment, caches and build products
	rm -rf $(VENV) .venv-oldest .cache .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	rm -rf docs/_build docs/auto_examples docs/generated docs/sg_execution_times.rst
	rm -rf src/maxmargin/_prebuilt
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# No dependency on pyproject.toml: an environment is made once, its contents are kept up to date.
$(PY):
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	    echo "'$(PYTHON)' was not found. Install Python 3.11 or newer, or name one:" \
	         "make PYTHON=/path/to/python3" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "maxmargin needs Python 3.11 or newer, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." \
	         "Name another one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "'$(PYTHON) -m venv' does not work here. Install your system's venv package" \
	         "(Debian and Ubuntu: apt install python3-venv) and try again." >&2; exit 1; }
	@echo "creating $(VENV) (a few seconds)"
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) uv 2>/dev/null || true

$(BASE): WHAT = -e '.[cli,plot]'
$(BASE): pyproject.toml | $(PY)
	@echo "installing maxmargin into $(VENV) (mostly downloads)"
	@$(INSTALL)
	@touch $@

$(DEV): WHAT = -e '.[dev,io,plot,bench,lp,cli,parquet]'
$(DEV): pyproject.toml | $(PY)
	@echo "installing maxmargin and its development tools into $(VENV) (mostly downloads)"
	@$(INSTALL)
	@touch $@ $(BASE)

$(RAY): WHAT = -e '.[ray]'
$(RAY): pyproject.toml $(DEV) | $(PY)
	@echo "installing Ray into $(VENV) (mostly downloads)"
	@$(INSTALL)
	@touch $@

$(DOCS): WHAT = -e '.[docs,plot]'
$(DOCS): pyproject.toml $(BASE) | $(PY)
	@echo "installing what the documentation needs into $(VENV) (mostly downloads)"
	@$(INSTALL)
	@touch $@

# Builds for the CPU alone are called +cpu where there are others, too.
$(TORCH): WHAT = -e '.[torch]' pytorch-crf onnx onnxruntime
$(TORCH): pyproject.toml $(DEV) | $(PY)
	@echo "installing torch $(TORCH_VERSION) for the CPU into $(VENV) (about 200 MB)"
	@$(PIP) 'torch==$(TORCH_VERSION)+cpu' 2>/dev/null || $(PIP) 'torch==$(TORCH_VERSION)'
	@$(INSTALL)
	@touch $@
