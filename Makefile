# A fresh clone needs Python 3.11 or newer, make, and for `make lab` a browser. Each target makes the environment it needs.
PYTHON ?= python3
ARGS ?=

# Environments are made without bytecode, which the first import writes; a container may say that none is to be written.
unexport PYTHONDONTWRITEBYTECODE

ENV := .venv/bin/python
SUITE := $(PYTHON) scripts/suite.py
DEV = dev=`$(SUITE) --environment` || exit 1;

.PHONY: help lab demo notebooks docs smoke test test-all browser full endurance peers faults lint bench clean env

help:
	@echo 'make lab        JupyterLab on the tour (ARGS= is passed on to it)'
	@echo 'make demo       runs the tour without a browser: HTML and a summary'
	@echo 'make smoke      a test or more for each promise of the README: a minute (ARGS= for pytest)'
	@echo 'make test       the default tier of the tests on the newest Python that is found, and those of PyTorch code'
	@echo 'make test-all   the default tier on the newest and the oldest Python (two JAXs), one of them in pure Python'
	@echo 'make browser    what drives a browser, runs a whole notebook, builds the documentation or a wheel'
	@echo 'make lint       ruff and mypy'
	@echo 'make bench      times lazynb against its peers, writes benchmarks/RESULTS.md (ARGS=--quick, --check, --help)'
	@echo 'make notebooks  runs the notebooks and stores them with what they show'
	@echo 'make docs       builds the documentation into build/docs'
	@echo 'make clean      removes what these made'
	@echo 'Hours, before a release:'
	@echo 'make full       every sample of every corpus, on the newest and the oldest Python'
	@echo 'make endurance  random programs against eager JAX for an hour (ARGS="--minutes 5 --seed 2")'
	@echo 'make peers      the tests of JAX and of libraries on it, and PyTorch'"'"'s samples of its operations, lazily'
	@echo 'make faults     150 faults, planted one at a time: which of the tests notice each (ARGS=--help)'

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

smoke test test-all browser full:
	@$(SUITE) $@ $(ARGS)

endurance:
	@$(DEV) $$dev -m tests.endurance $(or $(ARGS),--minutes 60)

peers:
	@$(DEV) status=0; $$dev scripts/jax_suite.py $(ARGS) || status=1; $$dev scripts/peer_suites.py || status=1; \
	torch=`$(SUITE) --pytorch` && { $$torch scripts/torch_suite.py $(ARGS) || status=1; }; exit $$status

faults:
	@$(DEV) $$dev -m tests.faults $(ARGS)

lint:
	@$(DEV) status=0; \
	set -x; $$dev -m ruff check . || status=1; $$dev -m ruff format --check . || status=1; $$dev -m mypy || status=1; exit $$status

bench:
	@$(DEV) $$dev -m benchmarks $(ARGS)

clean:
	rm -rf .venv .venvs build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find lazynb tests scripts benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
