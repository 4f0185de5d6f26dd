# `make help` prints the targets by group, and the variables that they take. It is made of this file: `##@` begins a group,
# `##` after a target describes the target, and `#:` describes a variable.

#: PYTHON=python3        the interpreter that makes .venv (3.11 or newer)
#: FORM=codecs           the build form: `codecs` is this checkout, `compiled` and `pure` are wheels; serve: `compiled`
#: ARGS=                 more words for the server, pytest or the benchmark, e.g. ARGS='-k xclaim'
#: PORT=6379             serve: the port on 127.0.0.1
#: WORKERS=auto          test: processes that share the tests; 0 runs them in one process, for `-s` and `--pdb`
#: CYCLES=1000           crash: how often a server is killed
#: N=2000                differential: the number of sequences
#: FIRST=0               differential: the number of the first sequence
#: SEED=                 differential, simulate, crossing, fuzz, soak: the seed of the random choices
#: MINUTES=              simulate (60), crossing (0.5), soak (1): how long the run lasts
#: ONLY=                 crossing: one cell or sequence, e.g. ONLY='rewriting/FLUSHALL'
#: SECONDS=60            fuzz: the time for each target
#: FRAMES=10000000       fuzz: the number of RESP frames
#: PRODUCERS=3           soak: the number of producers
#: CONSUMERS=5           soak: the number of consumers
#: RUN=run.json          bench-report: the file that `make bench ARGS='--json run.json'` wrote

PYTHON ?= python3
# A server is compiled if there is a C compiler. Tests and tools run this checkout.
ifneq ($(filter serve,$(MAKECMDGOALS)),)
ifndef FORM
FORM   := $(shell $(PYTHON) compiling/compilers.py form 2>/dev/null)
endif
endif
ifeq ($(FORM),)
FORM   := codecs
endif
PORT   ?= 6379
CYCLES ?= 1000
N      ?= 2000
FIRST  ?= 0
SEED   ?=
ONLY   ?=
PRODUCERS ?= 3
CONSUMERS ?= 5
SECONDS ?= 60
FRAMES ?= 10000000
WORKERS ?= auto
RUN    ?= run.json
ARGS   ?=

# Each form has an environment of its own: with the checkout in it, or with the wheel that is made from it.
ifeq ($(FORM),compiled)
VENV   := .venv-compiled
NOTICE := Compiling Headrace: a minute or two the first time, less after a change. \
  (make serve FORM=codecs does not compile, and is slower.)
export HEADRACE_COMPILE := compiled
export HEADRACE_REQUIRE_COMPILED := 1
else ifeq ($(FORM),pure)
VENV   := .venv-pure
export HEADRACE_COMPILE := pure
else ifeq ($(FORM),codecs)
VENV   := .venv
else
$(error FORM is compiled, codecs or pure, not $(FORM))
endif
BIN    := $(VENV)/bin
# The checkout under the package's name, so that mypy finds `headrace` whatever the folder is called.
TYPED  := $(VENV)/typed
PACKAGES := store protocol commands comparison persistence replication server pipeline testing
PIP    := $(BIN)/pip install --quiet --disable-pip-version-check
ifneq ($(filter compiled pure,$(FORM)),)
# The compilers are installed once, not for each build.
INSTALL := $(PIP) --no-build-isolation
BUILDER := $(VENV)/.compilers
SOURCES := setup.py $(wildcard compiling/*.py compiling/*.h *.py */*.pyx */*/*.pyx */*.pxi */*/*.pxi $(PACKAGES:%=%/*.py) $(PACKAGES:%=%/*/*.py))
else
INSTALL := $(PIP) --editable
SOURCES := setup.py $(wildcard compiling/*.py */*.pyx */*/*.pyx */*.pxi */*/*.pxi)
endif

.PHONY: help serve test run-tests test-compiled test-pure test-clients test-pipeline lint oracle \
  prove differential simulate crossing fuzz soak crash bench bench-report costs
.DEFAULT_GOAL := test

help: ## Print this list
	@awk -f .ci/help.awk $(firstword $(MAKEFILE_LIST))
	@echo
	@echo "Rare runs (coverage, mutants, known weaknesses, killed Spark drivers): .ci/extra"

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "Headrace needs Python 3.11 or newer, and $(PYTHON) was not found: name one with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Headrace needs Python 3.11 or newer, and $(PYTHON) is not: name one with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) cannot make a virtual environment: install it with 'apt-get install python3-venv'." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.compilers: compiling/compilers.py $(VENV)/.created
	$(PIP) $$($(PYTHON) compiling/compilers.py compilers)
	@touch $@

$(VENV)/.installed: pyproject.toml $(SOURCES) $(VENV)/.created $(BUILDER)
	@$(if $(NOTICE),echo "$(NOTICE)")
	$(INSTALL) .
	@touch $@

# Installs what an extra adds. Headrace is there already: to install it with the extra would build it again.
ADDED := from importlib.metadata import requires; import sys; \
  print(*(each.split(";")[0] for each in requires("headrace") if sys.argv[1] in each.split(chr(34))), sep=chr(10))
INSTALL_EXTRA = $(BIN)/python -c '$(ADDED)' $(1) | $(PIP) --requirement /dev/stdin

$(VENV)/.installed-dev: pyproject.toml $(SOURCES) $(VENV)/.created $(BUILDER)
	$(INSTALL) '.[dev]'
	@mkdir -p $(TYPED) && ln -sfn ../.. $(TYPED)/headrace
	@touch $@ $(VENV)/.installed

# The clients of other hands, and a Node of their own, in the same environment: pinned in tests/clients.
$(VENV)/.installed-clients: tests/clients/requirements.txt tests/clients/requirements-alone.txt $(VENV)/.installed-dev
	$(BIN)/pip install --quiet --disable-pip-version-check --requirement tests/clients/requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --requirement tests/clients/requirements-alone.txt
	@touch $@

$(VENV)/.installed-node: tests/clients/node/package-lock.json $(VENV)/.installed-clients
	$(BIN)/npm ci --silent --prefix tests/clients/node
	@touch $@

##@ Run

SERVE = $(BIN)/python -m headrace --bind 127.0.0.1 --port $(PORT) --appendonly yes --dir ./data $(ARGS)

serve: $(VENV)/.installed ## Compile and serve on 127.0.0.1, with an append-only file in ./data
	@mkdir -p data
	$(info $(SERVE))
	@$(SERVE) || { code=$$?; \
	  echo "make serve takes --port as PORT=7000, and other options as ARGS='--dir /tmp/other'" >&2; exit $$code; }

##@ Test

lint: $(VENV)/.installed-dev ## Run ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	MYPYPATH=$(TYPED) $(BIN)/mypy --strict $(PACKAGES:%=-p headrace.%)
	cd compiling && MYPYPATH=. ../$(BIN)/mypy --strict -m compilers -m compiled_modules -m headrace_build -m objects
	cd tools && MYPYPATH=../$(TYPED):. ../$(BIN)/mypy --strict -m compatibility -m reference

test: lint run-tests ## Run lint and all tests that need nothing but Python (the default target)

# A test module stays in one process, with the servers that it started.
run-tests: $(VENV)/.installed-dev
	$(BIN)/pytest -n $(WORKERS) --maxprocesses 8 --dist loadfile $(ARGS)

# The tests of all that is compiled, or meets what is, in the compiled form; building it takes a minute or two.
COMPILED := store protocol commands server persistence replication faults simulation crossing compat scenario differential
test-compiled: ## Run the tests of everything that is compiled, on a compiled wheel
	$(MAKE) FORM=compiled run-tests ARGS="$(COMPILED:%=tests/%) tests/test_compiled.py $(ARGS)"

# What has twins in C, in the form for machines without a compiler.
PURE := store protocol persistence replication
test-pure: ## Run the tests of all that has a twin in C, on a wheel without compiled modules
	$(MAKE) FORM=pure run-tests ARGS="$(PURE:%=tests/%) tests/test_compiled.py $(ARGS)"

test-clients: $(VENV)/.installed-node ## Install other projects' clients and run them; build the image
	HEADRACE_REQUIRE_CLIENTS=1 $(BIN)/pytest -n $(WORKERS) --maxprocesses 8 --dist loadfile tests/clients \
	  tests/container/test_engine.py tests/container/test_compose_schema.py $(ARGS)

$(VENV)/.installed-spark: pyproject.toml $(VENV)/.installed-dev
	$(call INSTALL_EXTRA,spark)
	@touch $@

# `make test` skips what needs Spark; this installs PySpark (700 MB) and skips nothing. Java 17 or newer must be there.
test-pipeline: $(VENV)/.installed-spark ## Install PySpark and run the tests of the data source (Java 17)
	HEADRACE_REQUIRE_SPARK=1 $(BIN)/pytest tests/pipeline $(ARGS)

$(VENV)/.installed-bench: pyproject.toml $(VENV)/.installed-dev
	$(call INSTALL_EXTRA,bench)
	@touch $@

##@ Measure

bench: $(VENV)/.installed-bench ## Load Headrace and Redis in turn and compare them
	$(BIN)/python -m benchmarks $(ARGS)

# docs/performance.md, its plots and README's table, from what `make bench ARGS='--json run.json'` wrote.
bench-report: $(VENV)/.installed-bench ## Write docs/performance.md and README's table from a run
	$(BIN)/python -m benchmarks.report $(RUN)

# Sets have the same order each time.
costs: $(VENV)/.installed-dev ## Count the steps of each command into benchmarks/costs.txt
	PYTHONHASHSEED=0 $(BIN)/python -m benchmarks.costs

##@ Search for defects (docs/testing.md)

crash: $(VENV)/.installed-dev ## Kill a loaded server again and again, and check what it kept
	HEADRACE_CRASH_CYCLES=$(CYCLES) $(BIN)/pytest -s tests/faults $(ARGS)

prove: differential simulate crossing fuzz soak ## Run the five generators below

differential: $(VENV)/.installed-dev ## Send random requests to Headrace and to Redis, and compare every byte
	HEADRACE_TEST_DIFFERENTIAL_SEQUENCES=$(N) HEADRACE_TEST_DIFFERENTIAL_FIRST=$(FIRST) \
	  HEADRACE_TEST_DIFFERENTIAL_SEED=$(or $(SEED),1) \
	  $(BIN)/pytest -s tests/differential $(ARGS)

simulate: MINUTES ?= 60
simulate: $(VENV)/.installed-dev ## Run the server under a simulated clock, network and disk, with crashes
	HEADRACE_TEST_SIMULATED_MINUTES=$(MINUTES) HEADRACE_TEST_SIMULATION_SEED=$(SEED) $(BIN)/pytest -s tests/simulation $(ARGS)

crossing: MINUTES ?= 0.5
crossing: $(VENV)/.installed-dev ## Try every command in every state of the server
	HEADRACE_TEST_CROSSING_MINUTES=$(MINUTES) HEADRACE_TEST_CROSSING_SEED=$(or $(SEED),1) \
	  HEADRACE_TEST_CROSSING_ONLY="$(ONLY)" $(BIN)/pytest -s tests/crossing $(ARGS)

fuzz: $(VENV)/.installed-dev ## Send malformed bytes to the reader, the handlers and the loaders
	HEADRACE_TEST_FUZZ_SECONDS=$(SECONDS) HEADRACE_TEST_FUZZ_FRAMES=$(FRAMES) HEADRACE_TEST_FUZZ_SEED=$(or $(SEED),1) \
	  $(BIN)/pytest -s tests/fuzz $(ARGS)

soak: MINUTES ?= 1
soak: $(VENV)/.installed-dev ## Run producers and consumers over TCP while the server is disturbed
	HEADRACE_TEST_SOAK_MINUTES=$(MINUTES) HEADRACE_TEST_SOAK_SEED=$(SEED) HEADRACE_TEST_SOAK_PRODUCERS=$(PRODUCERS) \
	  HEADRACE_TEST_SOAK_CONSUMERS=$(CONSUMERS) $(BIN)/pytest -s tests/soak $(ARGS)

##@ Set up

oracle: ## Install the real redis-server 8.10.2 that tests compare with
	@.ci/install_oracle
