# Headrace: `make serve`, `make test`, `make test-compiled`, `make test-plain`, `make test-clients`, `make test-pipeline`,
# `make lint`, `make bench`, `make oracle`, `make crash`, `make prove` (`make differential`, `simulate`, `crossing`, `fuzz`, `soak`),
# `make coverage`, `make mutate`, `make audit`.
#
#   PYTHON  the interpreter that makes .venv (3.11 or newer)      make test PYTHON=python3.12
#   FORM    `compiled`: not these sources, but the wheel of them  make bench FORM=compiled
#           `plain`: the wheel that is made without a compiler
#   PORT    where `make serve` listens on 127.0.0.1               make serve PORT=6380
#   N       how many sequences `make differential` plays          make differential N=20000
#   FIRST   the number of the first of them, or of the mutants    make differential SEED=2 FIRST=26 N=1
#   MINUTES how long `make simulate`, `crossing` and `soak` go on make soak MINUTES=30
#   ONLY    the one cell that `make crossing` plays               make crossing ONLY='rewriting/FLUSHALL'
#   PRODUCERS, CONSUMERS  how many work in `make soak`            make soak PRODUCERS=10 CONSUMERS=20
#   SECONDS how long `make fuzz` tries each target                make fuzz SECONDS=600 FRAMES=100000000
#   SEED    what `make differential`, `simulate`, `crossing` and `fuzz` draw  make simulate SEED=7
#   MUTANTS how many `make mutate` tries; 0 for all               make mutate MUTANTS=0
#   CYCLES  how often `make crash` kills a server                 make crash CYCLES=100
#   KILLS   how often `make crash-pipeline` kills each            make crash-pipeline KILLS=5
#   WORKERS processes that share the tests of `make test`         make test WORKERS=0 ARGS='-s -k xclaim'
#   RUN     what `make bench-report` makes the page of            make bench-report RUN=run.json
#   ARGS    further words for the server, pytest or the benchmark make serve ARGS='--loglevel debug'

PYTHON ?= python3
FORM   ?= pure
PORT   ?= 6379
CYCLES ?= 1000
KILLS  ?= 20
N      ?= 2000
FIRST  ?= 0
SEED   ?=
ONLY   ?=
PRODUCERS ?= 3
CONSUMERS ?= 5
SECONDS ?= 60
FRAMES ?= 10000000
MUTANTS ?= 250
WORKERS ?= auto
RUN    ?= run.json
ARGS   ?=

# Each form has an environment of its own: with the checkout in it, or with the wheel that is made from it.
ifeq ($(FORM),compiled)
VENV   := .venv-compiled
export HEADRACE_COMPILE := 1
export HEADRACE_REQUIRE_COMPILED := 1
else ifeq ($(FORM),plain)
VENV   := .venv-plain
export HEADRACE_COMPILE := 0
else
VENV   := .venv
endif
BIN    := $(VENV)/bin
# The checkout under the package's name, so that mypy finds `headrace` whatever the folder is called.
TYPED  := $(VENV)/typed
PACKAGES := store protocol commands persistence server pipeline testing
ifneq ($(filter compiled plain,$(FORM)),)
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
SOURCES := setup.py $(wildcard compiling/*.py *.py */*.pyx */*/*.pyx */*.pxi $(PACKAGES:%=%/*.py) $(PACKAGES:%=%/*/*.py))
else
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --editable
SOURCES := setup.py compiling/headrace_build.py $(wildcard */*.pyx */*/*.pyx */*.pxi)
endif

.PHONY: serve test test-compiled test-plain test-clients test-pipeline crash-pipeline lint bench bench-report oracle crash coverage mutate audit prove differential simulate crossing fuzz soak
.DEFAULT_GOAL := test

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "Headrace needs Python 3.11 or newer, and $(PYTHON) was not found: name one with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Headrace needs Python 3.11 or newer, and $(PYTHON) is not: name one with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make a virtual environment: install it with 'apt-get install python3-venv'." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: pyproject.toml $(SOURCES) $(VENV)/.created
	$(INSTALL) .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml $(SOURCES) $(VENV)/.created
	$(INSTALL) '.[dev]'
	@mkdir -p $(TYPED) && ln -sfn ../.. $(TYPED)/headrace
	@touch $@ $(VENV)/.installed

# The clients of other hands, and a Node of their own, in the same environment: pinned in tests/clients.
$(VENV)/.installed-clients: tests/clients/requirements.txt $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement tests/clients/requirements.txt
	@touch $@

$(VENV)/.installed-node: tests/clients/node/package-lock.json $(VENV)/.installed-clients
	$(BIN)/npm ci --silent --prefix tests/clients/node
	@touch $@

serve: $(VENV)/.installed
	@mkdir -p data
	$(BIN)/python -m headrace --bind 127.0.0.1 --port $(PORT) --appendonly yes --dir ./data $(ARGS)

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=$(TYPED) $(BIN)/mypy --strict $(PACKAGES:%=-p headrace.%)
	$(BIN)/mypy --strict compiling

test: lint run-tests

# A test module stays in one process, with the servers that it started.
run-tests: $(VENV)/.installed-dev
	$(BIN)/pytest -n $(WORKERS) --maxprocesses 8 --dist loadfile $(ARGS)

# The tests of all that is compiled, or meets what is, on the compiled form; building it takes about a minute.
COMPILED := store protocol commands server persistence faults simulation crossing compat scenario differential
test-compiled:
	$(MAKE) FORM=compiled run-tests ARGS="$(COMPILED:%=tests/%) tests/test_compiled.py $(ARGS)"

# What has a form of its own in C, on the form for machines without a compiler.
PLAIN := store protocol
test-plain:
	$(MAKE) FORM=plain run-tests ARGS="$(PLAIN:%=tests/%) tests/test_compiled.py $(ARGS)"

test-clients: $(VENV)/.installed-node
	HEADRACE_REQUIRE_CLIENTS=1 $(BIN)/pytest tests/clients $(ARGS)

$(VENV)/.installed-spark: pyproject.toml $(VENV)/.installed-dev
	$(INSTALL) '.[dev,spark]'
	@touch $@

# `make test` skips what needs Spark; this installs PySpark (700 MB) and skips nothing. Java 17 or newer must be there.
test-pipeline: $(VENV)/.installed-spark
	HEADRACE_REQUIRE_SPARK=1 $(BIN)/pytest tests/pipeline $(ARGS)

# What `make test-pipeline` does once, often: kill drivers and workers.
crash-pipeline: $(VENV)/.installed-spark
	HEADRACE_REQUIRE_SPARK=1 HEADRACE_TEST_PIPELINE_KILLS=$(KILLS) $(BIN)/pytest -s tests/pipeline/test_kills.py $(ARGS)

$(VENV)/.installed-bench: pyproject.toml $(VENV)/.installed-dev
	$(INSTALL) '.[dev,bench]'
	@touch $@

bench: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks $(ARGS)

# docs/performance.md, its plots and README's table, from what `make bench ARGS='--json run.json'` wrote.
bench-report: $(VENV)/.installed-bench
	$(BIN)/python -m benchmarks.report $(RUN)

# What `make test` does in a minute, at length: docs/durability.md.
crash: $(VENV)/.installed-dev
	HEADRACE_CRASH_CYCLES=$(CYCLES) $(BIN)/pytest -s tests/faults $(ARGS)

# The machines that look for what nobody thought of: docs/testing.md.
prove: differential simulate crossing fuzz soak

differential: $(VENV)/.installed-dev
	HEADRACE_TEST_DIFFERENTIAL_SEQUENCES=$(N) HEADRACE_TEST_DIFFERENTIAL_FIRST=$(FIRST) \
	  HEADRACE_TEST_DIFFERENTIAL_SEED=$(or $(SEED),1) \
	  $(BIN)/pytest -s tests/differential $(ARGS)

simulate: MINUTES ?= 60
simulate: $(VENV)/.installed-dev
	HEADRACE_TEST_SIMULATED_MINUTES=$(MINUTES) HEADRACE_TEST_SIMULATION_SEED=$(SEED) $(BIN)/pytest -s tests/simulation $(ARGS)

crossing: MINUTES ?= 0.5
crossing: $(VENV)/.installed-dev
	HEADRACE_TEST_CROSSING_MINUTES=$(MINUTES) HEADRACE_TEST_CROSSING_SEED=$(or $(SEED),1) \
	  HEADRACE_TEST_CROSSING_ONLY="$(ONLY)" $(BIN)/pytest -s tests/crossing $(ARGS)

fuzz: $(VENV)/.installed-dev
	HEADRACE_TEST_FUZZ_SECONDS=$(SECONDS) HEADRACE_TEST_FUZZ_FRAMES=$(FRAMES) HEADRACE_TEST_FUZZ_SEED=$(or $(SEED),1) \
	  $(BIN)/pytest -s tests/fuzz $(ARGS)

soak: MINUTES ?= 1
soak: $(VENV)/.installed-dev
	HEADRACE_TEST_SOAK_MINUTES=$(MINUTES) HEADRACE_TEST_SOAK_SEED=$(SEED) HEADRACE_TEST_SOAK_PRODUCERS=$(PRODUCERS) \
	  HEADRACE_TEST_SOAK_CONSUMERS=$(CONSUMERS) $(BIN)/pytest -s tests/soak $(ARGS)

# Lines and branches of the four packages without I/O of their own, and the tests that are about them; servers that
# tests start are measured as well.
COVERED := store protocol commands persistence
COVERED_BY := compat server differential fuzz simulation
coverage: $(VENV)/.installed-dev
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -n $(WORKERS) --maxprocesses 8 --dist loadfile \
	  $(COVERED:%=tests/%) $(COVERED_BY:%=tests/%) tests/test_*.py $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --show-missing
	$(BIN)/coverage json --quiet -o coverage.json
	$(BIN)/python tests/coverage_shares.py coverage.json $(COVERED)

$(VENV)/.installed-mutate: $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check cosmic-ray==8.7.0
	@touch $@

# Small changes to the store's code, which its tests should notice: docs/testing.md.
mutate: $(VENV)/.installed-mutate
	cd tests && ../$(BIN)/python -m mutation --mutants $(MUTANTS) --seed $(or $(SEED),1) --first $(FIRST) $(ARGS)

$(VENV)/.installed-audit: $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check pip-audit==2.10.1
	@touch $@

# Known weaknesses of what is installed, at the versions that are: asks PyPI, so it fails where only a mirror of it is.
audit: $(VENV)/.installed-audit
	$(BIN)/pip freeze --quiet --exclude-editable > $(VENV)/audited.txt
	$(BIN)/pip-audit --strict --no-deps --disable-pip --requirement $(VENV)/audited.txt $(ARGS)

oracle:
	@.ci/install_oracle
