# Everything from a fresh clone: `make run`, `make test`. Each target makes what it needs and is quick the next time.
SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check --no-input -q
SETUP := pyproject.toml setup.py

.PHONY: help install compile run test check clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

$(VENV)/made:
	@sh tools/make_venv.sh $(VENV)
	@touch $@

$(VENV)/build-tools: $(VENV)/made
	@$(PIP) install 'setuptools>=77' 'Cython>=3.1,<4'
	@touch $@

compile: $(VENV)/build-tools ## compile the hot modules where a C compiler is (what did not change is skipped)
	@$(PY) setup.py -q build_ext --inplace

$(VENV)/installed: $(SETUP) | compile
	@echo "Installing the broker into $(VENV) ..."
	@$(PIP) install --no-build-isolation -e .
	@touch $@

$(VENV)/installed-test: $(SETUP) | compile
	@echo "Installing the broker and what its tests need into $(VENV) ..."
	@$(PIP) install --no-build-isolation -e '.[test]'
	@touch $@ $(VENV)/installed

$(VENV)/installed-dev: $(SETUP) | compile
	@echo "Installing the broker and its development tools into $(VENV) ..."
	@$(PIP) install --no-build-isolation -e '.[dev]'
	@touch $@ $(VENV)/installed-test $(VENV)/installed

install: compile $(VENV)/installed ## set up .venv with the broker in it

run: install ## the broker on 127.0.0.1:5672, its data in ./data
	@exec $(VENV)/bin/amqp-router serve --data-dir data

test: compile $(VENV)/installed-test ## every test
	@$(PY) -m pytest

check: compile $(VENV)/installed-dev ## lint, types, layers, tests
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports
	@$(PY) -m pytest

clean: ## remove all that was built, .venv included; data stays
	rm -rf $(VENV) build dist *.egg-info amqp_router/compiled.json
	find amqp_router vhosts persistence -name '*.so' -delete
