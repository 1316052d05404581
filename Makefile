# Needs make and Python 3.11 to 3.13. Everything else is installed into .venv.

VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
HAS_PIP := $(PY) -m pip --version >/dev/null 2>&1
QUICKSTART_MINUTES ?= 10

# The first of these that is new enough makes the environment; override with make PYTHON=...
PYTHON ?= $(shell for name in python3 python3.13 python3.12 python3.11; do \
	$$name -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$name && break; done)

.PHONY: help install quickstart serve test test-slow lint types docs bench compare clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile
	@echo; echo 'after make install && source .venv/bin/activate (each with --help; README.md has examples):'
	@awk -F '"""|: ' 'FNR == 1 && FILENAME !~ /__/ { printf "  python %-21s %s\n", FILENAME, $$2 }' src/*.py
	@echo '  bash train_scripts/*.sh      Train with a published recipe; docs/training.md has the table'

install: $(INSTALLED) ## make .venv and install everything into it

$(INSTALLED): pyproject.toml constraints.txt
	@$(HAS_PIP) || test -n "$(PYTHON)" || { echo "no Python 3.11 to 3.13 found; name one with make PYTHON=..."; exit 1; }
	$(HAS_PIP) || $(PYTHON) -m venv $(VENV)
	@echo "installing into $(VENV): some gigabytes are downloaded, which can take minutes"
	$(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[quickstart,dev,docs,onnx]"
	@touch $@

quickstart: $(INSTALLED) ## build the data, train for QUICKSTART_MINUTES (10), transcribe and score
	$(PY) -m amt.cli.quickstart --minutes "$(QUICKSTART_MINUTES)"

serve: $(INSTALLED) ## open the quick-start model to the browser, on this machine only
	$(PY) -m amt.serve quickstart/model.ckpt

test: $(INSTALLED) ## run the tests
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -m "not slow" -n 2

test-slow: $(INSTALLED) ## run the long tests
	OMP_NUM_THREADS=1 $(PY) -m pytest -q -m slow

lint: $(INSTALLED) ## check style and the direction of imports
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(VENV)/bin/lint-imports

types: $(INSTALLED) ## check types
	$(PY) -m mypy

docs: $(INSTALLED) ## build the documentation into build/site, with any warning as an error
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict --quiet
	@echo "open build/site/index.html; to search as well: $(PY) -m http.server -b 127.0.0.1 -d build/site"

# The short ones; bench_training_step.py wants the quick-start data. The others are run one by one, see docs/results.md.
BENCHMARKS := $(wildcard $(addprefix benchmarks/,music_core.py data.py model.py bench_*.py))

bench: $(INSTALLED) ## measure speed
	@for file in $(BENCHMARKS); do echo "$$file"; $(PY) "$$file" || exit 1; done

BASIC_PITCH := .bench/basic-pitch

$(BASIC_PITCH)/.installed: benchmarks/basic_pitch/requirements.txt
	test -x $(BASIC_PITCH)/bin/python || $(PYTHON) -m venv $(BASIC_PITCH)
	$(BASIC_PITCH)/bin/python -m pip install --quiet --disable-pip-version-check -r $<
	$(BASIC_PITCH)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps basic-pitch==0.4.0
	@touch $@

compare: $(INSTALLED) $(BASIC_PITCH)/.installed ## score basic-pitch (own environment) on the quick-start test songs
	$(PY) benchmarks/basic_pitch/compare.py --python $(BASIC_PITCH)/bin/python

clean: ## remove caches and build products; data, logs and .venv stay
	rm -rf build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .bench
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
