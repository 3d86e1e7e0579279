# What a person needs: `make run` opens the app, `make test` checks everything. Each sets up what it needs first.
# Another interpreter: `make test PYTHON=python3.12`. One test: `make test ARGS="-k causal"`.

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
BENCH := .venv-bench/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

.PHONY: run test lint bench pictures browser office clean
.DELETE_ON_ERROR:

run: .venv/runtime.stamp
	$(BIN)/streamlit run app.py

# pytest comes last, so that its summary ends the output
test: lint browser office
	@$(BIN)/python -m pytest -n auto $(ARGS)

lint: .venv/dev.stamp
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

bench: browser .venv-bench/bench.stamp
	@$(BIN)/python -m tests.bench

pictures: browser
	@$(BIN)/python -m tests.browser.pictures

browser: .venv/dev.stamp
	@$(BIN)/python -m tests.browser.chromium

office: .venv/dev.stamp
	@$(BIN)/python -m tests.office

# a stamp says which requirements are installed: they are installed again only after the file changed
.venv/runtime.stamp: requirements.txt | $(BIN)/python
	$(BIN)/python $(PIP_INSTALL) -r requirements.txt
	@touch $@

.venv/dev.stamp: requirements.txt requirements-dev.txt | $(BIN)/python
	$(BIN)/python $(PIP_INSTALL) -r requirements-dev.txt
	@touch $@ .venv/runtime.stamp

.venv-bench/bench.stamp: requirements-bench.txt | $(BENCH)/python
	$(BENCH)/python $(PIP_INSTALL) -r requirements-bench.txt
	@touch $@

$(BIN)/python $(BENCH)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed, as $(PYTHON). Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(@D:/bin=) || { \
	  echo "The venv could not be made; on Debian: apt-get install python3-venv" >&2; rm -rf $(@D:/bin=); exit 1; }

clean:
	rm -rf .venv .venv-bench .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
