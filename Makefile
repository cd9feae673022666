SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help train test wording lint format docs oldest wheel-check bench clean

# PYTHON=... names the interpreter for .venv; by default the first below that is 3.11, 3.12 or 3.13.
PYTHON ?= python3
PYTHON_OLDEST ?= python3.11
ARGS ?=

PY := .venv/bin/python
PIP_INSTALL := -m pip install -qq --disable-pip-version-check
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))

help: ## list the targets
	@echo "make TARGET [ARGS='...'] [PYTHON=python3.12]"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

train: .venv/.installed ## train a detector, by default on the demo; ARGS='experiment=smoke seed=1'
	@$(PY) -m leakdet.train $(ARGS)

# At most four processes, because each sets up its own session fixtures.
test: .venv/.installed-dev ## run all tests; ARGS='-k store -x'
	@$(PY) -m pytest -n auto --maxprocesses 4 --dist worksteal $(ARGS)

wording: .venv/.installed-dev ## rewrite tests/wording/ with what the verbs print now
	@LEAKDET_REWRITES_WORDING=1 $(PY) -m pytest -q tests/test_wording.py
	@git --no-pager diff --stat -- tests/wording 2>/dev/null || true

lint: .venv/.installed-dev ## check style, format and types
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

format: .venv/.installed-dev ## format, and fix what can be fixed automatically
	@$(PY) -m ruff check --fix-only --quiet .
	@$(PY) -m ruff format .

docs: .venv/.installed-dev ## build the site from docs/ into build/site, without network
	@rm -rf build/site
	@$(PY) -m sphinx -E -W -n --keep-going -q -b html -d build/site-cache docs build/site
	@echo "build/site/index.html"

oldest: .venv-oldest/.installed ## run all tests with every direct dependency at its lower bound
	@# Old releases use what newer releases of other packages deprecate.
	@.venv-oldest/bin/python -m pytest -n auto --maxprocesses 4 --dist worksteal -W default::DeprecationWarning $(ARGS)

wheel-check: .venv/.installed-dev ## build the wheel, install it in a clean environment and run its commands there
	@scripts/wheel_check.sh $(PY)

bench: .venv/.installed-dev ## run every scripts/bench_*.py; they write docs/benchmarks.md
	@shopt -s nullglob; for script in scripts/bench_*.py; do echo "$$script"; $(PY) "$$script" $(ARGS); done

clean: ## remove environments, caches and build outputs; runs and stores stay
	@rm -rf .venv .venv-oldest build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find src tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +

# A half-made environment is removed, or the next call would take it for complete.
.venv/bin/python:
	@for python in "$(PYTHON)" python3.13 python3.12 python3.11; do \
		if "$$python" -c '$(SUPPORTED)' 2>/dev/null; then \
			echo "creating .venv with $$("$$python" --version)"; \
			"$$python" -m venv .venv && exit 0; \
			rm -rf .venv; exit 1; \
		fi; \
	done; \
	echo "leakdet needs Python 3.11, 3.12 or 3.13; $(PYTHON) is $$("$(PYTHON)" --version 2>&1 || true)." >&2; \
	echo "Install one of them, or name one: make PYTHON=/path/to/python3.12 ..." >&2; \
	exit 1

.venv/.installed: pyproject.toml constraints.txt | .venv/bin/python
	@echo "installing leakdet into .venv (minutes the first time: torch is large)"
	@$(PY) $(PIP_INSTALL) -c constraints.txt -e .
	@touch $@

.venv/.installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	@echo "installing leakdet[dev] into .venv (minutes the first time: torch is large)"
	@$(PY) $(PIP_INSTALL) -c constraints.txt -e '.[dev]'
	@touch .venv/.installed $@

# Python 3.11: the oldest numpy allowed has no wheel for 3.13.
.venv-oldest/.installed: pyproject.toml scripts/oldest.py | .venv/.installed-dev
	@rm -rf .venv-oldest
	@command -v $(PYTHON_OLDEST) >/dev/null || { \
		echo "make oldest needs $(PYTHON_OLDEST); name it: make oldest PYTHON_OLDEST=/path/to/python3.11" >&2; exit 1; }
	@echo "installing every dependency at its lower bound into .venv-oldest"
	@$(PYTHON_OLDEST) -m venv .venv-oldest
	@$(PY) scripts/oldest.py > .venv-oldest/constraints.txt
	@.venv-oldest/bin/python $(PIP_INSTALL) -c .venv-oldest/constraints.txt -e '.[dev]'
	@touch $@
