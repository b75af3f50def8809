# A fresh clone needs Python 3.11 or newer, make, and for `make lab` a browser. Each target makes the environment it needs.
PYTHON ?= python3
ARGS ?=

# Environments are made without bytecode, which the first import writes; a container may say that none is to be written.
unexport PYTHONDONTWRITEBYTECODE

ENV := .venv/bin/python

.PHONY: help lab demo notebooks docs test lint bench clean env

help:
	@echo 'make lab        JupyterLab on the tour (ARGS= is passed on to it)'
	@echo 'make demo       runs the tour without a browser: HTML and a summary'
	@echo 'make test       the tests, on each of Python 3.11, 3.12 and 3.13 found (LAZYNB_PYTHONS="3.11 3.12", ARGS= for pytest)'
	@echo 'make lint       ruff and mypy'
	@echo 'make bench      times lazynb against its peers, writes benchmarks/RESULTS.md (ARGS=--quick, --check, --help)'
	@echo 'make notebooks  runs the notebooks and stores them with what they show'
	@echo 'make docs       builds the documentation into build/docs'
	@echo 'make clean      removes what these made'

env:
	@$(PYTHON) scripts/environment.py .venv lab

lab: env
	$(ENV) scripts/lab.py notebooks/01-tour.ipynb $(ARGS)

demo: env
	@$(ENV) scripts/demo.py notebooks/01-tour.ipynb build/01-tour.html

notebooks: env
	@for one in notebooks/*.ipynb; do $(ENV) scripts/demo.py --store $$one build/$$(basename $$one .ipynb).html || exit 1; done

docs:
	@$(PYTHON) scripts/environment.py .venvs/docs docs
	@.venvs/docs/bin/python scripts/documentation.py build/docs

test:
	@$(PYTHON) scripts/test_matrix.py $(ARGS)

lint:
	@dev=`$(PYTHON) scripts/test_matrix.py --environment` || exit 1; status=0; \
	set -x; $$dev -m ruff check . || status=1; $$dev -m ruff format --check . || status=1; $$dev -m mypy || status=1; exit $$status

bench:
	@dev=`$(PYTHON) scripts/test_matrix.py --environment` || exit 1; $$dev -m benchmarks $(ARGS)

clean:
	rm -rf .venv .venvs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find lazynb tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
