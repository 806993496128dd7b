# Every target sets up its own environment first (scripts/setup.sh); a second call starts at once.
BIN = .venv/bin
PYTEST_ARGS ?=
NOTEBOOKS = $(wildcard notebooks/*.ipynb)

.PHONY: help setup lab demo test lint bench notebooks resolve gpu-kit gpu-check workloads-check clean
.SILENT:

help:
	echo "make lab        open the start notebook in JupyterLab"
	echo "make demo       record a tiny training run and show where its step goes"
	echo "make test       run every test, notebooks included"
	echo "make lint       ruff, mypy and the import contracts"
	echo "make bench      measure speed and memory"
	echo "make notebooks  run the notebooks again and store their outputs"
	echo "make resolve    show that the pinned set resolves on newer Pythons"
	echo "make gpu-kit    pack what gpu-check needs on a node without network"
	echo "make gpu-check  on a GPU node: tests, roofs and sample runs, into OUT"
	echo "make workloads-check  record each workload's tiny preset; losses over 20 steps (an hour)"
	echo "make clean      remove the environment and what tools left behind (recorded runs stay)"

setup:
	sh scripts/setup.sh

# JupyterLab refuses to run as root (in a container, say) unless told to.
lab: setup
	$(BIN)/workbench lab

demo:
	sh scripts/demo.sh

# Two processes of one thread each: with more threads they would take the processors from one
# another. A file's tests stay together, since they share servers, recordings and kernels.
WORKERS ?= 2

test: setup
	OMP_NUM_THREADS=1 POLARS_MAX_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) \
	    --dist loadfile --no-loadscope-reorder $(PYTEST_ARGS) tests \
	    $(if $(NOTEBOOKS),--nbval --nbval-current-env --nbval-cell-timeout=120 \
	    --nbval-sanitize-with tests/nbval_sanitize.cfg $(NOTEBOOKS))

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	set -e; for file in benchmarks/*.py; do \
	    if [ -e "$$file" ]; then echo "== $$file"; $(BIN)/python "$$file"; fi; done

notebooks: setup
	$(BIN)/python scripts/notebooks.py $(NOTEBOOKS)

resolve: setup
	$(BIN)/python scripts/resolve.py 3.12 3.13

# The node's own Python, which has torch and numpy; everything else comes from the kit.
OUT ?= gpu-check
NODE_PYTHON ?= python3

gpu-kit: setup
	$(BIN)/python scripts/gpu_kit.py

gpu-check:
	$(NODE_PYTHON) scripts/gpu_check.py --out "$(OUT)"

# The second half trains each one for 20 steps, and on two ranks, and looks at the losses.
workloads-check: setup
	$(BIN)/python scripts/workloads_check.py
	$(BIN)/python -m pytest -m slow $(PYTEST_ARGS) tests/workloads

clean:
	rm -rf .venv .install.log dist .ruff_cache .mypy_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
