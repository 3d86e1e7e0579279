# What a person needs: `make run` opens the app, `make test` checks everything. Each sets up what it needs first.
# Another interpreter: `make test PYTHON=python3.12`. One test: `make test ARGS="-k causal"`.

PYTHON ?= python3
ARGS ?=
BIN := .venv/bin
BENCH := .venv-bench/bin
AUDIT := .venv/audit/bin
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check

.PHONY: run classroom test lint audit lock bench load pictures browser office nginx clean
.DELETE_ON_ERROR:

# the profile for a server that others reach: STREAMLIT_RUN_TARGET=deploy/hosted.py make run
run: export STREAMLIT_RUN_TARGET ?= app.py
run: .venv/runtime.stamp
	$(BIN)/streamlit run

# from one laptop, without internet; ARGS="--pack" fills the folder deploy/wheels, for others
classroom: $(BIN)/python
	@$(BIN)/python deploy/classroom.py $(ARGS)

# pytest comes last, so that its summary ends the output
test: lint browser office nginx
	@$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

lint: .venv/dev.stamp
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# known weaknesses of the packages that a server runs; needs the advisory database of the package index
audit: .venv/audit.stamp
	@$(AUDIT)/python -m tests.audit

# after requirements.txt has changed
lock: .venv/dev.stamp
	@$(BIN)/python deploy/lock.py

bench: browser .venv-bench/bench.stamp
	@$(BIN)/python -m tests.bench

# a class of 100 students, eight minutes; one part of it: make load ARGS=students
load: browser nginx
	@$(BIN)/python -m tests.load $(ARGS)

pictures: browser
	@$(BIN)/python -m tests.browser.pictures

browser: .venv/dev.stamp
	@$(BIN)/python -m tests.browser.chromium

office: .venv/dev.stamp
	@$(BIN)/python -m tests.office

nginx: .venv/dev.stamp
	@$(BIN)/python -m tests.nginx

# a stamp says which requirements are installed: they are installed again only after the file changed
.venv/runtime.stamp: requirements.txt | $(BIN)/python
	$(BIN)/python $(PIP_INSTALL) -r requirements.txt
	@touch $@

.venv/dev.stamp: requirements.txt requirements-dev.txt | $(BIN)/python
	$(BIN)/python $(PIP_INSTALL) -r requirements-dev.txt
	@touch $@ .venv/runtime.stamp

.venv/audit.stamp: requirements-audit.txt | $(AUDIT)/python
	$(AUDIT)/python $(PIP_INSTALL) -r requirements-audit.txt
	@touch $@

.venv-bench/bench.stamp: requirements-bench.txt | $(BENCH)/python
	$(BENCH)/python $(PIP_INSTALL) -r requirements-bench.txt
	@touch $@

$(BIN)/python $(BENCH)/python $(AUDIT)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed, as $(PYTHON). Name another one: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PYTHON) -m venv $(@D:/bin=) || { \
	  echo "The venv could not be made; on Debian: apt-get install python3-venv" >&2; rm -rf $(@D:/bin=); exit 1; }

clean:
	rm -rf .venv .venv-bench deploy/wheels .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
