# Two commands are enough: `make run` serves on http://127.0.0.1:8080, `make test` runs every check.
# Everything is installed into .venv, at the versions of requirements.lock and tests/requirements.lock.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help setup run demo test check bench soak image lock clean

help:            ## show what can be made
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):[^#]*## /  make \1\t/'

setup: $(VENV)/.installed

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3"; exit 1; }
	@sh deploy/make-venv $(PYTHON) $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.python requirements.lock pyproject.toml
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.tested: $(VENV)/.installed tests/requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r tests/requirements.lock
	@touch $@

run: setup       ## serve on http://127.0.0.1:8080, events kept in ./riata-data
	$(BIN)/riata serve

demo: setup      ## stream made-up clicks into the running service and watch it learn
	$(BIN)/riata demo

check: $(VENV)/.tested  ## style and types
	$(BIN)/ruff check service tests
	$(BIN)/ruff format --check service tests
	$(BIN)/mypy

test: check      ## style, types and every test that runs before a merge
	$(BIN)/riata warm
	$(BIN)/python -m pytest -n logical --dist loadfile -m "not slow and not alone"
	$(BIN)/python -m pytest -m alone

SEEDS ?= 200000
soak: $(VENV)/.tested   ## the long tests: 300 kills, 100,000 mutated bodies; SEEDS=200000 simulated histories
	$(BIN)/python -m pytest -m slow --timeout=7200
	$(BIN)/python -m tests.simulation --first 1000000 --seeds $(SEEDS)

bench: $(VENV)/.tested  ## speed against the peers, as ratios measured in one run
	$(BIN)/python -m tests.bench.http_observe

image: $(VENV)/.tested  ## build the image without a container engine, start it, time it; wants root, buildah, debootstrap
	$(BIN)/python -m tests.deploy.image

lock: $(VENV)/.tested   ## pin the newest versions that fit pyproject.toml
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --upgrade --extra=build pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --extra=build --extra=test -c requirements.lock pyproject.toml -o tests/requirements.lock

clean:           ## remove everything that was installed or compiled; events stay
	rm -rf $(VENV) .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find service tests -name __pycache__ -type d -prune -exec rm -rf {} +
