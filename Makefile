# From a fresh clone: `make run` or `make test`. Each target makes what it needs first and is quick the next time.
SHELL := /bin/sh
.DEFAULT_GOAL := help
.NOTPARALLEL:

VENV := .venv
PY := $(VENV)/bin/python
PIP := sh tools/again.sh $(PY) -m pip --disable-pip-version-check --no-input -q
SETUP := pyproject.toml setup.py
# Spark looks for data sources in the folders of sys.path, where an editable install does not stand by itself.
ON_PATH := $(PY) -c 'import os, site; open(site.getsitepackages()[0] + "/amqp_router_tree.pth", "w").write(os.getcwd() + "\n")'
# Tests of what is compiled: run from source as well.
BOTH_WAYS := $(wildcard tests/protocol tests/connection tests/channel tests/vhosts tests/persistence tests/model)
# Arguments of the tool behind a target: make test ARGS='-k topic' runs those tests alone, and once.
ARGS :=

.PHONY: help install compile run test walk check analytics demo recompute million chaos fuzz soak contract interop bench clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

$(VENV)/made: tools/make_venv.sh
	@sh tools/make_venv.sh $(VENV)
	@touch $@

# Cython and setuptools stand in pyproject.toml too; here they serve every build without a download for each.
$(VENV)/build-tools: | $(VENV)/made
	@$(PIP) install 'setuptools>=77' 'Cython>=3.1,<4'
	@touch $@

compile: $(VENV)/build-tools ## compile the hot modules if there is a C compiler; what did not change is skipped
	@$(PY) setup.py -q build_ext --inplace

$(VENV)/installed: $(SETUP) | compile
	@echo "Installing the broker into $(VENV) ..."
	@$(PIP) install --no-build-isolation -e . && $(ON_PATH)
	@touch $@

# The extras of pyproject.toml; dev has all that test has. Of their 5,000 modules most are never imported: those
# that are become bytecode then.
$(VENV)/installed-%: $(SETUP) | compile
	@echo "Installing the broker and its extra '$*' into $(VENV) ..."
	@$(PIP) install --no-compile --no-build-isolation -e '.[$*]' && $(ON_PATH)
	@touch $(VENV)/installed $(if $(filter dev,$*),$(VENV)/installed-test) $@

install: compile $(VENV)/installed ## set up .venv with the broker in it
	@$(VENV)/bin/amqp-router --version

run: compile $(VENV)/installed ## the broker on 127.0.0.1:5672, its data in ./data
	@exec $(VENV)/bin/amqp-router serve $(ARGS)

$(VENV)/test-needs: tools/test_needs.sh $(VENV)/installed-test
	@sh tools/test_needs.sh $(PY)
	@touch $@

test: compile $(VENV)/installed-test $(VENV)/test-needs ## every test; those of compiled modules from source too
	@if [ -z "$(ARGS)" ] && $(PY) -c 'from amqp_router import compiled as c; raise SystemExit(not c.build.whole)'; then \
	    sh tools/test_both_ways.sh $(PY) $(BOTH_WAYS); \
	else \
	    $(PY) -m pytest $(ARGS); \
	fi

walk: compile $(VENV)/installed-test ## 100,000 random steps beside a model of how messages end; or ARGS='700 --steps 5000'
	@$(PY) -m tests.model.endings.walk $(ARGS)

check: compile $(VENV)/installed-dev ## format, lint, types, layers, tests
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports
	@$(PY) tools/import_cycles.py
	@$(PY) tools/cimports.py
	@$(PY) tools/loose_types.py
	@$(PY) tools/sizes.py
	@$(PY) tools/by_name_calls.py
	@$(MAKE) --no-print-directory test

analytics: compile $(VENV)/installed-analytics ## set up Spark (and Java, if there is none) beside the broker
	@$(PY) -m spark_analytics.java
	@$(VENV)/bin/amqp-router analytics doctor $(ARGS)

demo: compile $(VENV)/installed-demo ## 336,776 real flights: published, read by Spark, consumed; every figure checked
	@$(PY) -m demo $(ARGS)

chaos: compile $(VENV)/installed-test ## 50 rounds of kill -9 under confirmed load: nothing confirmed may be lost
	@$(PY) -m tests.faults.chaos $(ARGS)

fuzz: compile $(VENV)/installed-test ## broken AMQP, TLS, HTTP and files, a minute each: ARGS='--minutes 60 --seed 7 --only amqp'
	@$(PY) -m tests.fuzz $(ARGS)

soak: compile $(VENV)/installed-test ## every load that could starve the others, with a probe beside it; or ARGS='--minutes 30'
	@$(PY) -m tests.faults.soak $(ARGS)

contract: compile $(VENV)/installed-contract ## invented requests to every path of the HTTP API: no server error (Schemathesis)
	@$(PY) -m tests.admin_ui.contract $(ARGS)

recompute: compile $(VENV)/installed-test $(VENV)/test-needs ## the demo's figures three ways: data set, Spark, a plain decoder
	@$(PY) -m tests.demo.recompute $(ARGS)

million: compile $(VENV)/installed-test $(VENV)/test-needs ## a million messages read by Spark while the broker writes and is killed
	@$(PY) -m tests.spark_analytics.million $(ARGS)

interop: compile $(VENV)/installed-test ## other people's clients and their test suites; beside RabbitMQ with ARGS=--rabbitmq
	@$(PY) -m tests.interop.suites.run $(ARGS)

bench: compile $(VENV)/installed-test ## broker CPU per message; beside RabbitMQ with ARGS=--rabbitmq
	@$(PY) -m bench $(ARGS)

clean: ## remove what was built and .venv; data stays
	rm -rf $(VENV) .venv-interop build dist *.egg-info amqp_router/compiled.json
	find amqp_router vhosts persistence admin_ui -name '*.so' -delete
