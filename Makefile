# Everything runs in .venv, which is made on first use from a bare Python 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test check bench fuzz clean

demo: $(VENV)/.installed
	$(BIN)/fusiest evaluate simple matmuls fused_matmuls_to_simple -D N_EINSUMS=3

# The whole test suite: lint, format, types, tests.
test: check
	$(BIN)/python -m pytest -n 2

check: $(VENV)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.installed
	$(BIN)/python -m bench

# Coverage-guided fuzzing of the loader; FUZZ_SECONDS=600 for the full run.
FUZZ_SECONDS ?= 600
fuzz: $(VENV)/.installed
	$(BIN)/pip install -q -e '.[fuzz]'
	$(BIN)/python fuzz/fuzz_load.py -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 fuzz/corpus

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "fusiest needs Python 3.11 or later"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) demo build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
