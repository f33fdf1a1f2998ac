# Two commands do everything on a fresh machine: `make demo`, `make test`. `make` alone lists the rest.
#   make demo TORCH=cpu         takes torch's CPU build (200 MB) where the default would be a CUDA build of several GB
#   make test PYTHON=python3.12 uses another Python (3.11 or later)

.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= $(shell for python in python3 python3.11 python3.12 python3.13 python; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$python; break; }; done)
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --disable-pip-version-check $(if $(CI),--quiet --progress-bar off)
WORKERS ?= auto
TESTS ?= tests
PROGRAMS ?= 20000
NUMBA_PROGRAMS ?= 1000
JOBS ?= 0

.PHONY: help demo test check format lab gallery table fuzz bench docs clean

help: ## list what can be made
	@echo "fusekit: make demo and make test set everything up by themselves (in $(VENV))"
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: $(VENV)/made-run ## the main job: explore, run and check every program of the demo, write the pictures
	@echo "==> fusekit demo $(ARGS)"
	@$(BIN)/fusekit demo $(ARGS)

test: $(VENV)/made-dev ## all tests (TESTS=tests/memory for some, WORKERS=0 for one process)
	@echo "==> pytest $(TESTS)"
	@$(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8 -m "not slow and not alone" $(TESTS)
ifeq ($(TESTS),tests)
	@echo "==> pytest, what no other thread may run beside"
	@$(BIN)/python -m pytest -n 0 -m "alone and not slow" tests/trace
endif

check: $(VENV)/made-dev ## format, lint, types, import arrows
	@echo "==> ruff format --check" && $(BIN)/ruff format --check .
	@echo "==> ruff check" && $(BIN)/ruff check .
	@echo "==> pyright" && $(BIN)/pyright --pythonpath $(BIN)/python
	@echo "==> import arrows" && $(BIN)/python -m pytest -q tests/test_rooms.py tests/test_docs.py

format: $(VENV)/made-dev ## write the format and the lint fixes that are safe
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

lab: $(VENV)/made-lab ## JupyterLab on notebooks/
	@$(BIN)/jupyter lab --notebook-dir=notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

gallery: $(VENV)/made-run ## make gallery/ anew: a page and pictures for each program
	@$(BIN)/python -m gallery.build $(ARGS)

table: $(VENV)/made-run ## make docs/table.md anew: launches and bytes of each program
	@$(BIN)/python docs/make_table.py $(ARGS)

fuzz: $(VENV)/made-dev ## random programs against eager, goes on where it stopped (PROGRAMS, NUMBA_PROGRAMS, JOBS), slow tests
	@export TORCH_CPP_LOG_LEVEL=ERROR; status=0; \
	$(BIN)/python -m fusekit.testing.fuzz --runner plain --programs $(PROGRAMS) --jobs $(JOBS) || status=1; \
	$(BIN)/python -m fusekit.testing.fuzz --runner plain --numbers --steps 8 --programs $(PROGRAMS) --jobs $(JOBS) || status=1; \
	$(BIN)/python -m fusekit.testing.fuzz --runner numba --programs $(NUMBA_PROGRAMS) --jobs $(JOBS) || status=1; \
	$(BIN)/python -m pytest -n $(WORKERS) --maxprocesses 8 -m slow $(TESTS) || status=1; exit $$status

bench: $(VENV)/made-run ## every script of benchmarks/
	@set -e; for script in benchmarks/*.py; do echo "==> $$script"; $(BIN)/python $$script; done

docs: $(VENV)/made-docs ## docs/ as a web site in docs/_build
	@$(BIN)/sphinx-build -q -b html docs docs/_build && echo "docs/_build/index.html"

clean: ## remove the environment and what was made, but not gallery/
	rm -rf $(VENV) out docs/_build build *.egg-info .pytest_cache .ruff_cache

# ---- the environment: made once, and again when the project's needs change ----

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "fusekit needs Python 3.11 or later; name one: make demo PYTHON=/path/to/python3.11"; exit 1; }
	@echo "==> making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || $(PYTHON) -m virtualenv $(VENV) || { rm -rf $(VENV); \
		echo "this Python can make no environment; mend it: $(PYTHON) -m pip install --user virtualenv"; exit 1; }

$(VENV)/torch: constraints-ci.txt | $(VENV)/bin/python
ifeq ($(TORCH),cpu)
	@echo "==> installing torch's CPU build"
	@$(PIP) -c constraints-ci.txt torch --index-url https://download.pytorch.org/whl/cpu
endif
	@touch $@

$(VENV)/made-run: EXTRA :=
$(VENV)/made-dev: EXTRA := [dev]
$(VENV)/made-lab: EXTRA := [notebook]
$(VENV)/made-docs: EXTRA := [docs]
$(VENV)/made-%: pyproject.toml constraints-ci.txt $(VENV)/torch
	@echo "==> installing fusekit$(EXTRA) into $(VENV) (about a minute with the wheels at hand)"
	@$(PIP) -c constraints-ci.txt -e '.$(EXTRA)'
	@touch $@
