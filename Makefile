# `make run` starts the service on http://127.0.0.1:8080, `make test` runs the tests.
# Everything is installed into .venv, with the versions of requirements.lock and tests/requirements.lock.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
# Most modules are never imported; the others are compiled to byte code at their first import. That is half the time of pip.
PIP := $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off --no-compile
WITH_PROGRESS := $(PYTHON) deploy/with-progress
# One worker more than processors: many tests wait, for leases, restarts and probes.
WORKERS ?= $(shell expr $$(nproc) + 1)
PARALLEL = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

# Without byte code every process would compile the sources of its modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup run demo check test test-all programs bench vw soak image wheel site lock clean

help:            ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /  make \1\t/'

setup:           # the core is built while packages are installed
	@$(MAKE) --no-print-directory --jobs=2 $(VENV)/.installed

$(VENV)/.python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=/path/to/python3"; exit 1; }
	@sh deploy/make-venv $(PYTHON) $(VENV)
	@touch $@

$(VENV)/.native: $(VENV)/.python $(wildcard service/native/*.*)
	@$(WITH_PROGRESS) "building the native core" $(BIN)/python service/native/build.py
	@touch $@

$(VENV)/.packages: $(VENV)/.python requirements.lock
	@$(WITH_PROGRESS) "installing the packages of requirements.lock" $(PIP) --require-hashes -r requirements.lock
	@touch $@

$(VENV)/.installed: $(VENV)/.native $(VENV)/.packages pyproject.toml
	@$(WITH_PROGRESS) "installing riata" $(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.tested: $(VENV)/.installed tests/requirements.lock
	@$(WITH_PROGRESS) "installing the packages of tests/requirements.lock" $(PIP) --require-hashes -r tests/requirements.lock
	@touch $@

run: setup       ## run the service on http://127.0.0.1:8080; events are stored in ./riata-data
	@sh deploy/run-until-stopped $(BIN)/riata serve

demo: setup      ## stream synthetic clicks into the running service and plot its learning curve
	$(BIN)/riata demo

check: $(VENV)/.tested  ## check style and types
	$(BIN)/ruff check service tests
	$(BIN)/ruff format --check service tests
	@$(BIN)/python -m tests.sizes
	@$(WITH_PROGRESS) "checking types with mypy, which takes minutes the first time" $(BIN)/mypy

programs: $(VENV)/.python  # which may have to use apt too
	@sh deploy/test-programs

test: $(VENV)/.tested programs  ## run the tests that run before a merge
	$(PYTEST) $(PARALLEL)

test-all: $(VENV)/.tested programs  ## run these and all others but the long ones; before a release, and when store, run or native changed
	$(PYTEST) $(PARALLEL) -m "not slow"

SEEDS ?= 200000
soak: $(VENV)/.tested   ## run the long tests: 300 kills, 100,000 mutated bodies, SEEDS=200000 simulated histories
	$(PYTEST) -m slow --timeout=7200
	$(BIN)/python -m tests.simulation --first 1000000 --seeds $(SEEDS)

bench: $(VENV)/.tested  ## compare the speed with other tools, both measured in one run
	$(BIN)/python -m tests.bench speed

vw: .vw/vw       ## build the Vowpal Wabbit program for the benchmarks; needs cmake, ninja and a C++ compiler

# The wheels of Vowpal Wabbit do not contain the program, and its source distribution lacks three libraries (submodules of its
# repository). The system provides them (Debian: libfmt-dev, libspdlog-dev, rapidjson-dev, libboost-math-dev, zlib1g-dev).
.vw/vw: $(VENV)/.tested
	mkdir -p .vw
	version=$$($(BIN)/python -c 'from importlib.metadata import version; print(version("vowpalwabbit"))') && \
	$(BIN)/python -m pip download --quiet --no-deps --no-binary vowpalwabbit --no-build-isolation --dest .vw "vowpalwabbit==$$version" && \
	tar -xzf .vw/vowpalwabbit-$$version.tar.gz -C .vw && \
	cmake -S .vw/vowpalwabbit-$$version -B .vw/build -G Ninja -DCMAKE_BUILD_TYPE=Release \
		-DFMT_SYS_DEP=ON -DSPDLOG_SYS_DEP=ON -DRAPIDJSON_SYS_DEP=ON -DBUILD_TESTING=OFF > .vw/cmake.log && \
	cmake --build .vw/build --target vw_cli_bin > .vw/build.log
	cp .vw/build/vowpalwabbit/cli/vw $@

image: $(VENV)/.tested  ## build the image without a container engine, start it and time it; needs root, buildah, debootstrap
	$(BIN)/python -m tests.deploy.image

wheel: setup     ## build wheels for x86-64 and aarch64 and a source distribution in dist/, and check their metadata
	@$(WITH_PROGRESS) "installing build and twine" $(PIP) --quiet build twine
	rm -rf dist build
	$(BIN)/python -m build --no-isolation --sdist --outdir dist .
	@$(WITH_PROGRESS) "building the wheel for x86-64" $(BIN)/python -m build --wheel --config-setting=platform=manylinux_2_28_x86_64 --outdir dist .
	@$(WITH_PROGRESS) "building the wheel for aarch64" $(BIN)/python -m build --wheel --config-setting=platform=manylinux_2_28_aarch64 --outdir dist .
	$(BIN)/twine check --strict dist/*

site: $(VENV)/.tested   ## build the documentation as a site in build/site, which needs no network to be read
	@$(WITH_PROGRESS) "installing furo, myst-parser and sphinx" $(PIP) --quiet furo myst-parser sphinx
	@$(WITH_PROGRESS) "building the site" $(BIN)/python deploy/site/build.py
	@echo "open build/site/index.html"

lock: $(VENV)/.tested   ## pin the newest versions that pyproject.toml allows
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --upgrade --extra=build pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --generate-hashes --no-emit-index-url --no-emit-find-links --no-header --extra=build --extra=test -c requirements.lock pyproject.toml -o tests/requirements.lock

clean:           ## remove everything that was installed or compiled; events are kept
	rm -rf $(VENV) service/riata/native/*.so service/riata/native/*.built .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find service tests -name __pycache__ -type d -prune -exec rm -rf {} +
