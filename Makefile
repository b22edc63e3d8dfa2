# make run      create the environment, install, run the main job
# make test     lint, types and tests
# make test-long  the long tests, that `make test` leaves out
# make test-docker  the demo in containers, built and run for real
# make bench    the benchmarks, in small sizes; BENCH= for the real ones, DATASET= for real images
PYTHON ?= python3
BENCH ?= --quick
DATASET ?=
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: run test test-long test-docker lint types unit format install table bench clean

run: install
	$(BIN)/fedeas run conf/digits.toml --set output-dir=runs

test: lint types unit

install: $(INSTALLED)

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name it with: make PYTHON=python3.11 ..."; exit 1; }
	@echo "Installing into $(VENV): gigabytes, so some minutes of silence"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: install
	$(BIN)/mypy

# Two files at a time; those with real processes and their time limits have the machine to themselves.
unit: install
	$(BIN)/python -m pytest -m "not long" -n 2 --dist loadfile --ignore=tests/integration
	$(BIN)/python -m pytest -m "not long" tests/integration

test-long: install
	$(BIN)/python -m pytest -m long

test-docker: install
	$(BIN)/python -m pytest tests/integration/test_docker.py

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

table: install
	$(BIN)/python bench/digits_table.py

# Each is a command of its own: see docs/performance.md.
bench: install
	$(BIN)/python bench/suite.py $(BENCH) $(if $(DATASET),--dataset $(DATASET))

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
