SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CODE := api cli comparer dumper dumpfile pairing program tests benchmarks examples
PYTHON ?= python3
VENV ?= .venv/dev
BIN := $(VENV)/bin
PAIRS ?= .venv/pairs
OLDNUMPY ?= .venv/oldnumpy
FRAMEWORK_FREE := tests/conformance tests/golden tests/property tests/unit tests/e2e/test_compare.py \
	tests/e2e/test_compare_arrays.py
PIP_INSTALL := pip install --quiet --disable-pip-version-check --constraint constraints.txt
TESTS ?= tests
JOBS ?= auto

.PHONY: help demo test pairs oldnumpy slow check format lint types arch cov bench localisation score score-baseline golden changelog build clean

help:  ## say what each target does
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

# One environment with both frameworks, for tests, checks and benchmarks.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/$(PIP_INSTALL) torch
	$(BIN)/$(PIP_INSTALL) paddlepaddle transformers --editable '.[dev]'
	touch $@

demo:  ## set up three separate environments, dump ResNet-18 in torch and in paddle, compare
	examples/demo.sh

test: $(VENV)/.ready  ## set everything up and run all tests but the slow ones
	$(BIN)/pytest -m 'not slow and not pairs' -n $(JOBS) --dist loadfile $(TESTS)

# The LLMs of paddleformers need other versions of nearly everything, so they live apart.
$(PAIRS)/.ready: pyproject.toml constraints-pairs.txt
	$(PYTHON) -m venv $(PAIRS)
	$(PAIRS)/bin/pip install --quiet --disable-pip-version-check --constraint constraints-pairs.txt \
		paddlepaddle paddleformers --editable .
	touch $@

pairs: $(VENV)/.ready $(PAIRS)/.ready  ## test LLMs of other authors, each in an environment of its own
	PADIFF_PAIRS_PYTHON=$(abspath $(PAIRS))/bin/python $(BIN)/pytest -m pairs -n $(JOBS) tests/pairs

# paddleclas and paddleseg pin numpy 1.26: what runs without a framework is tested with it.
$(OLDNUMPY)/.ready: pyproject.toml constraints-oldnumpy.txt
	$(PYTHON) -m venv $(OLDNUMPY)
	$(OLDNUMPY)/bin/pip install --quiet --disable-pip-version-check \
		--constraint constraints-oldnumpy.txt hypothesis jsonschema pytest pytest-xdist \
		--editable '.[html,onnx,plot]'
	touch $@

oldnumpy: $(OLDNUMPY)/.ready  ## test what needs no framework with the oldest numpy, 1.26
	$(OLDNUMPY)/bin/pytest -m 'not slow and not pairs' -n $(JOBS) $(FRAMEWORK_FREE)

slow: $(VENV)/.ready  ## run the long tests: kills, damaged files, deep trees (at most 30 minutes)
	timeout 30m $(BIN)/pytest -m 'slow and not pairs' $(TESTS)

check: lint types arch  ## run linter, type checker and import contracts

format: $(VENV)/.ready  ## format the code
	$(BIN)/ruff format $(CODE)
	$(BIN)/ruff check --fix $(CODE)

lint: $(VENV)/.ready  ## check style
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)

types: $(VENV)/.ready  ## check types
	$(BIN)/mypy

arch: $(VENV)/.ready  ## check the import contracts
	PYTHONPATH=src $(BIN)/lint-imports

cov: $(VENV)/.ready  ## measure test coverage
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -m 'not slow and not pairs' $(TESTS)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

bench: $(VENV)/.ready  ## measure speed and memory, as ratios within one run
	$(BIN)/python -m benchmarks

localisation: $(VENV)/.ready  ## measure how often a planted fault is named, and false alarms
	$(BIN)/python -m benchmarks localisation

score: $(VENV)/.ready  ## score verdicts, modules and causes on the whole corpus against the baseline
	$(BIN)/python -m benchmarks.score

score-baseline: $(VENV)/.ready  # store today's outcomes as the baseline; say in the commit why
	$(BIN)/python -m benchmarks.score --write-baseline

golden: $(VENV)/.ready  ## rewrite the golden files; say in the commit why
	$(BIN)/python tests/golden/make.py

changelog: $(VENV)/.ready  ## show what is new since the last entry of CHANGELOG.md
	$(BIN)/towncrier build --draft --version next

build: $(VENV)/.ready  ## build wheel and sdist into dist/
	rm -rf build/lib build/bdist.* dist
	$(BIN)/python -m build

clean:  ## remove everything that make made, environments included
	rm -rf build dist src/*.egg-info .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis .venv padiff_dump
