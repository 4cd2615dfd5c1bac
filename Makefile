# `make` alone lists what can be done. Everything runs in .venv, which `make setup` builds.
SHELL := /bin/sh
PYTHON := .venv/bin/python
STAMP := .venv/.ready
# Distributions build their Python with profile-guided optimization, version managers mostly do not: a loop of calls took 25 % longer there.
BEST_PYTHON := $(firstword $(wildcard /usr/bin/python3.11) 3.11)
BENCH_STAMP := .venv/.bench-ready

.DEFAULT_GOAL := help
.PHONY: help setup test test-slow check format lint types layers contract e2e seeds explore campaign campaign-tests soak bench mutants demo generate pins image clean

# What needs nothing but this machine; the rest has verbs of its own.
HERE := not campaign and not contract and not e2e
# Three times as many workers as two cores have: most long tests wait for real servers and processes.
WORKERS ?= 6
# On local mode every worker has a cluster and an operator of its own; a cluster that KUBECONFIG names
# has room for one operator. make e2e E2E_PART=0/3 runs a third.
# make e2e E2E_BOUNDED=1 runs one file of each kind of trouble instead of all.
E2E_ALL := $(if $(KUBECONFIG),tests/e2e,-n 3 --dist worksteal tests/e2e tests/docs/test_tutorial.py)
E2E_SOME := -k "not by_itself" $(addprefix tests/e2e/cluster/test_,create.py primary_lost.py all_pods_lost.py children.py end.py)
E2E := $(if $(E2E_BOUNDED),$(E2E_SOME),$(E2E_ALL))

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(STAMP): pyproject.toml requirements/dev.txt requirements/uv.txt tools/get-uv
	@uv=$$(sh tools/get-uv) && \
	if [ ! -x $(PYTHON) ]; then "$$uv" venv --quiet --python $(BEST_PYTHON) .venv || "$$uv" venv --quiet .venv; fi && \
	"$$uv" pip sync --quiet --compile-bytecode --python $(PYTHON) --require-hashes requirements/dev.txt && \
	"$$uv" pip install --quiet --python $(PYTHON) --no-deps --no-build-isolation -e . && \
	$(PYTHON) -m compileall -q src dev && \
	touch $(STAMP)

setup: $(STAMP) ## build .venv (gets uv itself when it is missing)

TEST := PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest -q -n $(WORKERS) --dist loadgroup --no-loadscope-reorder \
	  --ignore=tests/contract --ignore=tests/e2e

# In a new clone one process compiles the tests first: six that do so at once take three times as long.
test: $(STAMP) ## run the tests on this machine alone (SEED=... repeats a run)
	@find tests -name '*-pytest-*.pyc' -print -quit | grep -q . || \
	  PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest -q --collect-only tests > /dev/null || true
	$(TEST) -m "$(HERE) and not slow" tests

test-slow: $(STAMP) ## the rest of them: many real servers, or many simulated ones
	$(TEST) -m "$(HERE) and slow" $$(grep -rl "mark.slow" --include=test_*.py tests)

check: $(STAMP) format lint types layers test test-slow ## what CI does: format, lint, types, layers, tests

format: $(STAMP)
	@.venv/bin/ruff format --check --quiet src dev tests bench examples tools || \
	  { echo "run: .venv/bin/ruff format src dev tests bench examples tools"; exit 1; }

lint: $(STAMP)
	.venv/bin/ruff check --quiet src dev tests bench examples tools

types: $(STAMP)
	.venv/bin/mypy

layers: $(STAMP)
	.venv/bin/lint-imports

contract: $(STAMP) ## contract suites: the embedded API server (or KUBECONFIG=...), and what simulated servers promise on real ones
	$(PYTHON) -m pytest -q $(if $(KUBECONFIG),-n 0 tests/contract,-n 4 tests/contract $(wildcard tests/sim/test_contract_*.py)) \
	  --dist loadgroup -m "contract and not campaign"

e2e: $(STAMP) ## databases end to end: on local mode, or on KUBECONFIG=...
	$(PYTHON) -m pytest -q -m "e2e and not campaign" --timeout 300 $(E2E)

seeds: $(STAMP) ## all cases of the tests that draw some of theirs (SEED=...)
	HISTORIES=all $(PYTHON) -m pytest -q -n 2 --dist load --timeout 900 $$(grep -rl "^from support.histories import" tests)

explore: $(STAMP) ## properties with examples that no run had before
	$(PYTHON) -m pytest -q -m "$(HERE)" --hypothesis-profile explore --timeout 1800 $$(grep -rl "^@given" tests)

campaign: $(STAMP) ## 10,000 trials, every effect of every scenario, hours of trouble (CAMPAIGN_SECONDS=, SEED=)
	$(PYTHON) tools/campaign.py

campaign-tests: $(STAMP) explore ## the tests that take too long for every day
	$(PYTHON) -m pytest -q -m campaign --timeout 3600 tests

$(BENCH_STAMP): $(STAMP) requirements/bench.txt
	@uv=$$(sh tools/get-uv) && "$$uv" pip install --quiet --python $(PYTHON) --require-hashes -r requirements/bench.txt && touch $(BENCH_STAMP)

soak: $(STAMP) ## ten minutes of random changes and kills on real servers (SOAK_SECONDS, SOAK_SEED)
	$(PYTHON) -m pytest -q -s -m campaign tests/e2e/test_soak.py

bench: $(BENCH_STAMP) ## measure against peers in turns; table, and build/bench.json (PART="moves cluster")
	$(PYTHON) -m bench $(PART)

mutants: $(STAMP) ## changes of the program that no test notices (ONLY=planning, MUTANTS_SAMPLE, MUTANTS_SECONDS, SEED)
	$(PYTHON) -m tools.mutants $(ONLY)

demo: $(STAMP) ## local mode: a sharded Valkey under load survives a killed primary
	.venv/bin/redis-operator demo

generate: $(STAMP) ## write the files that are generated from code (CRDs, reference, rights, installation, chart, golden manifests)
	$(PYTHON) tools/generate.py

pins: ## compile the pinned requirement files from pyproject.toml
	@uv=$$(sh tools/get-uv) && \
	compile="$$uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate" && \
	$$compile pyproject.toml --all-extras --group dev --no-emit-package redis-operator -o requirements/dev.txt && \
	$$compile pyproject.toml --all-extras --group dev --group bench --no-emit-package redis-operator -c requirements/dev.txt -o requirements/bench.txt && \
	echo uv | $$compile - -o requirements/uv.txt

image: $(STAMP) ## the operator's image as build/redis-operator.tar, without Docker, on Debian 12
	rm -rf build/wheels
	$(PYTHON) -m hatchling build -t wheel -d build/wheels
	$(PYTHON) tools/image.py --wheel build/wheels/*.whl --output build/redis-operator.tar

clean: ## delete what was built
	rm -rf .venv .tools build .mypy_cache .ruff_cache .pytest_cache
