# Everything runs in .venv, which is made on first use from a bare Python 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo mutants test test-browser test-cluster test-torch test-tvm check docs prove bench fuzz fuzz-networks vendor clean

# Maps one layer of GPT-3 6.7B onto a TPU v4i; the report, the mapping and the numbers are left in demo/.
demo: $(VENV)/.installed
	mkdir -p demo
	$(BIN)/fusiest map tpu_v4i gpt3_6.7B -D BATCH_SIZE=64 -D N_TOKENS=4096 --objective edp \
		--mapping demo/mapping.yaml --json demo/result.json --report demo/report.html
	$(BIN)/fusiest show tpu_v4i gpt3_6.7B demo/mapping.yaml -D BATCH_SIZE=64 -D N_TOKENS=4096 --svg demo/mapping.svg > demo/mapping.txt
	@echo "open demo/report.html; the mapping is in demo/mapping.yaml, all figures in demo/result.json"

# The whole test suite: lint, format, types, tests.
test: check
	$(BIN)/python -m pytest -n 2 --dist loadgroup

# The report in a real browser: Debian's chromium, installed here if we may, driven by Playwright.
test-browser: $(VENV)/.installed
	@command -v chromium > /dev/null || { test "$$(id -u)" = 0 && apt-get install -y -q chromium; } \
		|| { echo "no chromium: as root, apt-get install chromium"; exit 1; }
	$(BIN)/pip install -q -e '.[browser]'
	$(BIN)/python -m pytest tests/report/test_browser.py tests/sweeps/test_sweep_browser.py

# Networks from PyTorch: torch for CPUs and its exporter to ONNX, both large; without them these tests are skipped.
test-torch: $(VENV)/.installed
	$(BIN)/pip install -q torch==2.13.0 onnxscript
	$(BIN)/pip install -q --no-deps torchvision
	$(BIN)/python -m pytest tests/networks/test_torch.py

# Mappings as TVM modules: its wheel is 100 MB and more; without it these tests are skipped.
test-tvm: $(VENV)/.installed
	$(BIN)/pip install -q -e '.[tvm]'
	$(BIN)/python -m pytest tests/code/test_tvm.py

# Sweeps on a Dask cluster of this machine, whose processes are killed; FUSIEST_PROVE=1 for twenty times.
test-cluster: $(VENV)/.installed
	$(BIN)/pip install -q -e '.[cluster]'
	$(BIN)/python -m pytest tests/sweeps/test_cluster.py

# The documentation as a site: site/index.html. A broken link or a page that no other leads to is an error.
docs: $(VENV)/.installed
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs site
	@echo "open site/index.html"

# The random proofs: thousands of cases against the simulator and the exhaustive mappers, some 20 minutes on two cores;
# FUSIEST_PROVE_SECONDS=600 (for each, in place of 35) for a night.
prove: $(VENV)/.installed
	FUSIEST_PROVE=1 $(BIN)/python -m pytest -n 2 --dist loadgroup tests/model tests/code tests/pmapping tests/mapper tests/baselines tests/networks tests/sweeps/test_random_sweeps.py

# Wrong edits of the search and the model, one at a time: the tests must notice each.
mutants: $(VENV)/.installed
	$(BIN)/python -m mutants

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
	mkdir -p fuzz/found
	$(BIN)/python fuzz/fuzz_load.py -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=2048 fuzz/found fuzz/corpus

# The same of networks: models of the tests' random graphs, changed node by node.
fuzz-networks: $(VENV)/.installed
	$(BIN)/pip install -q -e '.[fuzz]'
	mkdir -p fuzz/found-networks
	$(BIN)/python fuzz/fuzz_import.py -max_total_time=$(FUZZ_SECONDS) -timeout=20 -rss_limit_mb=2048 -max_len=200000 fuzz/found-networks

$(VENV)/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; assert sys.version_info >= (3, 11), "fusiest needs Python 3.11 or later"'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e '.[dev,charts]'
	touch $@

# The scripts of others that reports carry, as their npm packages have them; their README says which versions.
VENDOR := src/fusiest/report/assets/vendor
vendor:
	mkdir -p build
	npm pack --silent --pack-destination build plotly.js-cartesian-dist-min@4.1.1 elkjs@0.12.1
	tar -xOzf build/plotly.js-cartesian-dist-min-4.1.1.tgz package/plotly-cartesian.min.js | gzip -9n > $(VENDOR)/plotly-cartesian.min.js.gz
	tar -xOzf build/elkjs-0.12.1.tgz package/lib/elk.bundled.js | gzip -9n > $(VENDOR)/elk.bundled.js.gz

clean:
	rm -rf $(VENV) demo site build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
