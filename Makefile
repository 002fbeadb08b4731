SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
CODE := api cli comparer docs/site dumper dumpfile ops pairing program tests benchmarks examples
PYTHON ?= python3
VENV ?= .venv/dev
BIN := $(VENV)/bin
PAIRS ?= .venv/pairs
OLDNUMPY ?= .venv/oldnumpy
DOCS ?= .venv/docs
PYTHONS ?= python3.12 python3.13
JAX ?= .venv/jax
MINDSPORE ?= .venv/mindspore
KERAS ?= .venv/keras
STORES ?= .venv/stores
FRAMEWORK_FREE := tests/conformance tests/golden tests/property tests/unit tests/e2e/test_compare.py \
	tests/e2e/test_compare_arrays.py
# How work grows with a model, and random trees of modules: the same with any numpy.
OF_ANY_NUMPY := tests/unit/pairing/test_extremes.py tests/property/test_pairing_trees.py
CORE_TESTS := tests/golden tests/conformance tests/unit/comparer tests/e2e/test_compare_arrays.py
# On a terminal pip shows how far it is; in a log it says nothing. Python compiles what is imported,
# a small part of what is installed, by itself.
PIP := pip install --no-compile $(shell test -t 2 || echo --quiet) --disable-pip-version-check
PIP_INSTALL := $(PIP) --constraint constraints.txt
# $(call set_up,FOLDER,HOW LONG AND LARGE,COMMANDS): say so before, and how long it took after.
set_up = @echo "setting up $(1) (once; $(2))" >&2; start=$$SECONDS; $(3); \
	touch $(1)/.ready; echo "set up $(1) in $$((SECONDS - start)) s" >&2
TESTS ?= tests
# Much of a test is waiting for programs that it started: one more than there are cores keeps them busy.
JOBS ?= $(shell echo $$(($$(nproc) + 1)))
# Each worker and each program that a test starts would compile padiff, and pytest all tests, again.
unexport PYTHONDONTWRITEBYTECODE
comma := ,

.PHONY: help demo test pairs adapters adapter-jax adapter-keras adapter-mindspore stores oldnumpy pythons slow check format lint types arch cov bench localisation score score-baseline ops golden docs pictures changelog build clean

help:  ## say what each target does
	@grep -E '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

# One environment with both frameworks, for tests, checks and benchmarks.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(call set_up,$(VENV),some minutes and 5 GB,$(PYTHON) -m venv $(VENV); $(BIN)/$(PIP_INSTALL) torch; \
		$(BIN)/$(PIP_INSTALL) paddlepaddle transformers --editable '.[dev]')

demo:  ## set up three separate environments, dump ResNet-18 in torch and in paddle, compare
	examples/demo.sh

test: $(VENV)/.ready  ## set everything up and run all tests but the slow ones
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'not slow and not pairs' -n $(JOBS) \
		--dist loadfile --no-loadscope-reorder $(TESTS)

# The LLMs of paddleformers need other versions of nearly everything, so they live apart.
$(PAIRS)/.ready: pyproject.toml constraints-pairs.txt
	$(call set_up,$(PAIRS),some minutes and 1.9 GB,$(PYTHON) -m venv $(PAIRS); \
		$(PAIRS)/bin/$(PIP) --constraint constraints-pairs.txt paddlepaddle paddleformers --editable .)

pairs: $(VENV)/.ready $(PAIRS)/.ready  ## test LLMs of other authors, each in an environment of its own
	PADIFF_PAIRS_PYTHON=$(abspath $(PAIRS))/bin/python $(BIN)/pytest -m pairs -n $(JOBS) tests/pairs

# Adapters whose frameworks the other tests do without, an environment each.
$(JAX)/.ready: pyproject.toml constraints.txt
	$(call set_up,$(JAX),a minute and 1 GB,$(PYTHON) -m venv $(JAX); \
		$(JAX)/bin/$(PIP_INSTALL) hypothesis pytest --editable '.[jax]')

adapter-jax: $(VENV)/.ready $(JAX)/.ready  ## test JAX in an environment of its own, against torch
	PADIFF_TORCH_PYTHON=$(abspath $(BIN))/python $(JAX)/bin/pytest tests/adapters/jax

$(KERAS)/.ready: pyproject.toml constraints.txt
	$(call set_up,$(KERAS),a minute and 1 GB,$(PYTHON) -m venv $(KERAS); \
		$(KERAS)/bin/$(PIP_INSTALL) hypothesis keras pytest --editable '.[torch]')

adapter-keras: $(KERAS)/.ready  ## test Keras on its torch backend, against torch
	$(KERAS)/bin/pytest tests/adapters/keras

# Servers of stores on loopback: Azurite is npm's, Hadoop's classes are in an old pyspark.
$(STORES)/.ready: pyproject.toml constraints.txt
	$(call set_up,$(STORES),some minutes and 1 GB; needs npm and Java,$(PYTHON) -m venv $(STORES); \
		$(STORES)/bin/$(PIP_INSTALL) 'setuptools<60' wheel adlfs gcsfs gcp-storage-emulator hdfs-native hypothesis \
		jsonschema pytest --editable '.[remote]'; npm install --silent --no-audit --no-fund --prefix $(STORES)/npm azurite@3; \
		$(STORES)/bin/pip download --quiet --no-deps --no-build-isolation --no-binary :all: --dest $(STORES) pyspark==2.4.8; \
		tar xzf $(STORES)/pyspark-2.4.8.tar.gz -C $(STORES) --strip-components=2 pyspark-2.4.8/deps/jars)

stores: $(STORES)/.ready  ## test dumps on servers of Azure's, Google's and Hadoop's stores, on loopback
	PADIFF_AZURITE=$(abspath $(STORES))/npm/node_modules/.bin/azurite-blob PADIFF_HADOOP_JARS=$(abspath $(STORES))/jars \
		$(STORES)/bin/pytest tests/stores

# paddleclas and paddleseg pin numpy 1.26: what runs without a framework is tested with it.
$(OLDNUMPY)/.ready: pyproject.toml constraints-oldnumpy.txt
	$(call set_up,$(OLDNUMPY),a minute or two,$(PYTHON) -m venv $(OLDNUMPY); \
		$(OLDNUMPY)/bin/$(PIP) --constraint constraints-oldnumpy.txt \
		hypothesis jsonschema pytest pytest-xdist --editable '.[html$(comma)onnx$(comma)pandas$(comma)plot$(comma)remote]')

oldnumpy: $(OLDNUMPY)/.ready  ## test what needs no framework with the oldest numpy, 1.26
	$(OLDNUMPY)/bin/pytest -m 'not slow and not pairs' -n $(JOBS) $(FRAMEWORK_FREE) $(OF_ANY_NUMPY:%=--ignore=%)

.venv/python3.%/.ready: pyproject.toml constraints.txt
	python3.$* -m venv $(@D)
	$(@D)/bin/$(PIP_INSTALL) hypothesis jsonschema pytest pytest-xdist --editable '.[html]'
	touch $@

pythons: $(PYTHONS:%=.venv/%/.ready)  ## test what needs no framework with the other Pythons of the machine
	for python in $(PYTHONS); do \
		.venv/$$python/bin/pytest -m 'not slow and not pairs' -n $(JOBS) $(CORE_TESTS); done

# MindSpore wants numpy 1.26.
$(MINDSPORE)/.ready: pyproject.toml constraints-oldnumpy.txt
	$(call set_up,$(MINDSPORE),some minutes and 2 GB,$(PYTHON) -m venv $(MINDSPORE); $(MINDSPORE)/bin/$(PIP) \
		--constraint constraints-oldnumpy.txt hypothesis pytest pytest-xdist --editable '.[mindspore]')

adapter-mindspore: $(VENV)/.ready $(MINDSPORE)/.ready  ## test MindSpore in an environment of its own, against torch
	PADIFF_TORCH_PYTHON=$(abspath $(BIN))/python $(MINDSPORE)/bin/pytest -n $(JOBS) --dist loadfile tests/adapters/mindspore

adapters: adapter-jax adapter-keras adapter-mindspore  ## test the adapters of frameworks that have environments of their own

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

ops: $(VENV)/.ready  ## test all operators of both frameworks at length (nightly; some 10 minutes)
	$(BIN)/padiff ops test --examples 200 --seed $${SEED:-0} --jobs $$(nproc) --known tests/support/known_operators.toml \
		--save build/ops/cases.json --programs build/ops/programs --html build/ops/operators.html \
		--junit build/ops/operators.xml

golden: $(VENV)/.ready  ## rewrite the golden files and the schema of the report; say in the commit why
	$(BIN)/python tests/golden/make.py

# The site needs no framework, and other packages than the tests.
$(DOCS)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/$(PIP_INSTALL) --editable '.[docs]'
	touch $@

docs: $(DOCS)/.ready  ## build the documentation site into build/site; every link is checked
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --quiet
	@echo built build/site/index.html

pictures: $(VENV)/.ready  ## photograph the reports that the documentation shows (needs chromium)
	$(BIN)/python docs/site/pictures.py

changelog: $(VENV)/.ready  ## show what is new since the last entry of CHANGELOG.md
	$(BIN)/towncrier build --draft --version next

build: $(VENV)/.ready  ## build wheel and sdist into dist/
	rm -rf build/lib build/bdist.* dist
	$(BIN)/python -m build

clean:  ## remove everything that make made, environments included
	rm -rf build dist src/*.egg-info .coverage* .mypy_cache .pytest_cache .ruff_cache .hypothesis .venv padiff_dump
