# Two commands do everything in a fresh clone: `make demo` and `make test`. Both make the virtual environment first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2

.PHONY: demo test test-slow lint format clean

# Keyed by what it was installed from: changes of the code itself need no new install.
$(VENV)/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[train,formats,web,dev]'
	touch $@

demo: $(VENV)/.installed
	$(BIN)/salvit demo

test: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# What compares times runs by itself, when nothing else does.
TIMED = tests/bench/test_page.py

test-slow: $(VENV)/.installed-dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal -m slow --ignore $(TIMED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow $(TIMED)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check src tests
	$(BIN)/ruff format --check src tests
	$(BIN)/codespell src tests docs README.md CHANGELOG.md CONTRIBUTING.md
	$(BIN)/mypy

format: $(VENV)/.installed-dev
	$(BIN)/ruff check --fix src tests
	$(BIN)/ruff format src tests

clean:
	rm -rf $(VENV) build dist
