# The verbs of this repository; `make help` prints them with the comments behind their names.
# Needs python3 (>= 3.11, with venv and headers), a C compiler and make; everything else comes from PyPI into .venv.

PYTHON ?= python3
VENV   := .venv
PY     := $(VENV)/bin/python
T      ?=
F      ?=
S      ?=
export PIP_DISABLE_PIP_VERSION_CHECK := 1

NATIVE_INPUTS := $(shell find csrc rocketpy/_core -name '*.[ch]' -o -name '*.map' -o -name '*.pyx' -o -name '*.pxd' 2>/dev/null)

CORE_MODULES := $(patsubst rocketpy/_core/%.pyx,rocketpy._core.%,$(wildcard rocketpy/_core/*.pyx))
TEST_FILE     = $(firstword $(subst ::, ,$(T)))

# Left out by SHORT=1: variants of what the other tests show, which take half of the time.
SPARK_LONGER := \
    test_batch.py::test_a_table_has_all_its_rows_after_one_query_has_filtered_it \
    test_batch.py::test_a_topic_without_messages_is_an_empty_table \
    test_batch.py::test_a_view_of_sql_is_read_and_written \
    test_batch.py::test_filters_on_place_are_handed_to_the_source \
    test_batch.py::test_properties_are_filtered_by_the_broker \
    test_batch.py::test_times_bound_what_is_read \
    test_write.py::test_an_epoch_that_runs_again_adds_nothing_unless_told_otherwise[false-800] \
    test_write.py::test_several_writes_of_one_epoch_are_all_there
SPARK_SHORT := $(patsubst %,tests/spark/test_%.py,batch decisions segments sender stream_reader write) \
    tests/spark/test_kill.py::test_a_stream_killed_at_random_writes_every_message_once \
    $(patsubst %,--deselect 'tests/spark/%',$(SPARK_LONGER))

# If Python may not keep bytecode, each of pytest's processes compiles every test file again.
KEEP_BYTECODE := env -u PYTHONDONTWRITEBYTECODE

# All tests: four files at a time, since most of them wait for servers; in the order of their names, which puts the quick ones last.
FOUR_FILES := --numprocesses 4 --dist loadfile --no-loadscope-reorder

.PHONY: collect wheel aarch64 spark bench bench-peer bench-recovery bench-proxy bench-timer-slot help quickstart up debug build test interop lint fuzz fuzz-store fault crash cluster soak sanitize exports clean
.DEFAULT_GOAL := help

help: ## this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

quickstart: $(VENV)/.built ## name server + broker, a million messages (N=…) sent and received, each one checked, with figures; DIR=directory keeps the data
	@$(VENV)/bin/rocketpy up --namesrv-port 0 --broker-port 0 --check $(or $(N),1000000) $(if $(DIR),--dir "$(DIR)")

up: $(VENV)/.built ## name server + broker, left running until Ctrl-C; DIR=directory keeps the data
	@exec $(VENV)/bin/rocketpy up $(if $(DIR),--dir "$(DIR)")

debug: $(VENV)/.built ## rocketpy with a library built for ASan + UBSan; ARGS="up --check 10000" (default: up)
	@$(PY) tests/sanitize.py debug $(or $(ARGS),up)

build: $(VENV)/.built ## makes .venv, with the rocketpy command in it

test: $(VENV)/.built ## all tests but the slow ones, or T=pattern: a path under tests/ or an expression for pytest -k
	@$(if $(T),,.ci/room)
	@$(KEEP_BYTECODE) $(PY) -m pytest -q $(if $(T),$(if $(wildcard $(TEST_FILE)),$(T),$(if $(wildcard tests/$(TEST_FILE)),tests/$(T),-k "$(T)")),$(FOUR_FILES)) || \
	    { code=$$?; test $$code != 5 || echo 'nothing in the tests matches T="$(T)": a path under tests/, or an expression for pytest -k' >&2; exit $$code; }

collect: $(VENV)/.built ## checks that pytest finds and can import all the tests
	@$(KEEP_BYTECODE) $(PY) -m pytest -q --collect-only >$(VENV)/collected.txt || { tail -n 40 $(VENV)/collected.txt; exit 1; }

wheel: $(VENV)/.built ## builds the wheel, installs it into an empty environment and uses it from an empty directory; ARCH=aarch64 makes one for such hosts in dist/
	@$(if $(filter command,$(firstword $(origin ARCH))),$(PY) .ci/wheel.py "$(ARCH)",$(PY) -m pytest -q -m slow tests/test_wheel.py)

aarch64: $(VENV)/.built ## cross-compiles csrc/ and runs its test programs under qemu-user (needs gcc-aarch64-linux-gnu, libc6-dev-arm64-cross, qemu-user)
	@$(PY) -m pytest -q tests/test_aarch64.py -m "slow or not slow" $(if $(T),-k "$(T)")

interop: $(VENV)/.built ## real clients, tools and brokers against ours, slow tests included; AGAINST=peer runs the tests against RocketMQ itself
	@$(PY) -m pytest -q tests/interop -m "slow or not slow" $(if $(AGAINST),--against $(AGAINST)) $(if $(T),-k "$(T)")

spark: $(VENV)/.built ## the Spark tests, with killed streams (installs PySpark, 400 MB; needs Java 17); SHORT=1: a minute's selection, with one killed stream; T=pattern
	@sh .ci/java 17
	@$(PY) -c 'import pyspark, pyarrow' 2>/dev/null || $(PY) -m pip install --quiet 'pyspark>=4.2' 'pyarrow>=18'
	@$(if $(SHORT),ROCKETPY_KILLS=3 timeout --foreground 900) $(PY) -m pytest -q $(if $(SHORT),$(SPARK_SHORT),tests/spark) -m "slow or not slow" $(if $(T),-k "$(T)")

bench: $(VENV)/.built ## the pytest-benchmark suites at full size, with the physical limits and the shares reached; T=pattern
	@ROCKETPY_BENCH=full $(PY) -m pytest -q bench --benchmark-enable $(if $(T),-k "$(T)")

bench-peer: $(VENV)/.built ## the same load against RocketMQ 5.5.0, rocketpy and the floor, alternately; ARGS="--quick --flush SYNC …"
	@$(PY) -m bench.peer $(ARGS)

bench-recovery: $(VENV)/.built ## time from kill -9 to serving again, RocketMQ 5.5.0 and rocketpy on the same store; ARGS="--messages N --rounds N"
	@$(PY) -m bench.recovery $(ARGS)

bench-proxy: $(VENV)/.built ## gRPC sends and receives through RocketMQ's proxy and ours, alternately, in front of the same broker (needs Go and Java); ARGS="--rounds N --seconds N"
	@$(PY) -m bench.proxy $(ARGS)

bench-timer-slot: $(VENV)/.built ## a million timed messages due in the same second: entering, delivery, and other producers meanwhile; ARGS="--messages N --rate N"
	@$(PY) -m bench.timer_slot $(ARGS)

lint: $(VENV)/.built ## ruff, mypy, stubtest, clang-format
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(PY) -m mypy.stubtest --concise --allowlist tests/stubtest.allow $(CORE_MODULES)
	@$(VENV)/bin/clang-format --dry-run -Werror $$(find csrc tests bench -name '*.[ch]')

fuzz: $(VENV)/.built ## libFuzzer over the decoders: F=name (default all), S=seed, SECONDS=60 in total
	@$(PY) tests/sanitize.py fuzz --name "$(F)" --seed "$(S)" --seconds "$(or $(SECONDS),60)"

fuzz-store: $(VENV)/.built ## opens ten thousand damaged store directories; S=seed of the first, N=how many
	@ROCKETPY_STORE_MUTATIONS=$(or $(N),10000) $(if $(S),ROCKETPY_SEED=$(S)) $(PY) -m pytest -q -s tests/property/test_store_mutations.py

fault: $(VENV)/.built ## disks that fail, fill up or write short at the first call, the second, … until a run has no failure
	@$(PY) -m pytest -q tests/fault -m "slow or not slow" $(if $(T),-k "$(T)")

crash: $(VENV)/.built ## kills brokers under load; N=how often (default 200), S=seed
	@ROCKETPY_CRASH_ROUNDS=$(or $(N),200) $(if $(S),ROCKETPY_SEED=$(S)) $(PY) -m pytest -q -s --timeout 3600 tests/crash

cluster: $(VENV)/.built ## a master and its slave over a link that delays, loses, stalls, cuts and fragments; as root also in network namespaces
	@$(PY) -m pytest -q -s tests/cluster -m "slow or not slow" $(if $(T),-k "$(T)")

soak: $(VENV)/.built ## a cluster under all loads and faults at once: nothing is leaked, left behind or lost; MINUTES=30, S=seed; LOGS=directory keeps its logs
	@ROCKETPY_SOAK_MINUTES=$(or $(MINUTES),30) $(if $(S),ROCKETPY_SEED=$(S)) $(if $(LOGS),ROCKETPY_SOAK_LOGS="$(LOGS)") $(PY) -m pytest -q -s tests/soak

sanitize: $(VENV)/.built ## the C tests and the wrappers' tests under ASan + UBSan, C tests with threads also under TSan
	@$(PY) tests/sanitize.py tests

exports: $(VENV)/.built ## makes csrc/rocketpy.map from the public headers
	@$(PY) tests/exports.py

clean: ## removes everything that was built, .venv included
	rm -rf $(VENV) build dist *.egg-info rocketpy/_core/*.so rocketpy/_core/*.c .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# --- stages of the environment: each announces its start, and is repeated when a dependency is newer ---

$(VENV)/.checked:
	@PYTHON=$(PYTHON) sh .ci/prerequisites
	@test -x $(PY) || { echo "making $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@touch $@

$(VENV)/.dependencies: pyproject.toml $(VENV)/.checked
	@echo "installing build and test tools into $(VENV); compiling csrc/ beside it"
	@$(PY) .ci/dependencies.py
	@touch $@

$(VENV)/.compiled: setup.py csrc/library.py pyproject.toml $(NATIVE_INPUTS) $(VENV)/.dependencies
	@echo "compiling csrc/ and rocketpy/_core"
	@$(PY) setup.py --quiet build_ext --inplace
	@touch $@

# Editable: the command and the tests run from this tree. Uses what has just been compiled.
$(VENV)/.installed: setup.py pyproject.toml $(VENV)/.dependencies | $(VENV)/.compiled
	@echo "installing the commands into $(VENV)/bin"
	@$(PY) -m pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

# Compiles bytecode, as pip does for a wheel: where Python may not cache it, compiling 70 modules takes a fifth of a broker's start.
$(VENV)/.built: $(VENV)/.compiled $(VENV)/.installed
	@$(PY) -m compileall -q rocketpy
	@touch $@
