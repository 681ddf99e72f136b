# Everything a newcomer or a machine runs. Needs Python 3.11 or newer and make; the rest is
# installed into .venv by the first target that needs it, once.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
JOBS ?= 2

# What Python has translated is kept: tests and their hundreds of processes would translate JAX and SciPy each time.
export PYTHONDONTWRITEBYTECODE :=

# Every test process has a core: threads of linear algebra inside it would wait for each other's.
test unit: export OPENBLAS_NUM_THREADS := 1
test unit: export OMP_NUM_THREADS := 1

.DEFAULT_GOAL := help
.PHONY: help demo test unit slow lint types format docs bench reproduce warm clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "credo needs Python 3.11 or newer; say which with: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One stamp per extra: installing again only when pyproject.toml changed.
$(VENV)/.stamp-%: pyproject.toml | $(BIN)/python
	$(PIP) --editable ".[$*]"
	@touch $@

demo: $(VENV)/.stamp-plot  ## a small story from a network to a picture
	$(BIN)/python examples/demo.py

# Lint, types and compiling use what the others leave of the cores; the tests then have all of them.
test: $(VENV)/.stamp-test  ## everything that must be green: lint, types, tests
	@$(MAKE) --no-print-directory -j2 lint types warm
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

unit: $(VENV)/.stamp-test warm  ## the tests alone (JOBS=n processes)
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal

slow: $(VENV)/.stamp-test warm  ## the tests that take minutes or gigabytes, one at a time
	$(BIN)/python -m pytest -m slow

# Kernels are compiled once and cached on disk; done before the tests fan out, so that parallel
# workers find them instead of each compiling the same ones.
warm: $(VENV)/.stamp-test
	@$(BIN)/python tests/warm.py

lint: $(VENV)/.stamp-test  ## ruff: rules and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.stamp-test  ## mypy, strict
	$(BIN)/mypy

format: $(VENV)/.stamp-test  ## rewrite files the way ruff wants them
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.stamp-docs  ## the documentation, into docs/_build
	$(BIN)/python docs/generate.py
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build
	@echo "open docs/_build/index.html"

bench: $(VENV)/.stamp-bench  ## speed and memory beside other libraries
	@for script in benchmarks/[a-z]*.py; do \
	  [ -e "$$script" ] || { echo "there are no benchmarks yet"; continue; }; \
	  echo "== $$script"; $(BIN)/python "$$script" || exit 1; \
	done

reproduce: $(VENV)/.stamp-all  ## published tables and figures, measured again
	@found=0; for script in experiments/[a-z]*.py; do \
	  [ -e "$$script" ] || continue; found=1; \
	  echo "== $$script"; $(BIN)/python "$$script" || exit 1; \
	done; [ $$found = 1 ] || echo "there are no experiments yet: nothing to reproduce"

clean:  ## remove what was built, keep .venv
	rm -rf docs/_build docs/algorithms docs/learners docs/models docs/estimators docs/datasets .pytest_cache .mypy_cache .ruff_cache .hypothesis out
	find src tests -name __pycache__ -type d -exec rm -rf {} +
