# `make` or `make help` lists what can be done here.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
ready := .venv/ready

.PHONY: help setup demo servers test check pytest test-containers bench lock clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(ready) ## create .venv with everything that is needed to run, test and check

# Repeated only when the lock or the package's description changes.
$(ready): requirements.txt pyproject.toml
	@echo 'installing into .venv what requirements.txt locks; the first time this takes a minute or more' >&2
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(ready) ## jobs survive killed workers, on private servers (ARGS=…, IMAGES=folder)
	@$(BIN)/brokerjobs demo $(if $(IMAGES),--images "$(IMAGES)") $(ARGS)

servers: $(ready) ## a private PostgreSQL and RabbitMQ to try things on, until Ctrl-C
	@$(BIN)/python -m brokerjobs.servers.serving

test: check pytest ## everything that has to hold before a commit

# Two at a time: many tests wait for processes. The tests of a file stay together, since they share servers.
PYTEST = $(BIN)/pytest --numprocesses=2 --dist=loadfile

pytest: $(ready) ## the tests alone (ARGS=… goes to pytest)
	$(BIN)/python -m brokerjobs.servers
	$(PYTEST) $(ARGS)

test-containers: $(ready) ## all tests on RabbitMQ 4.0 and PostgreSQL 17 in containers, and docker-compose.yml (needs Docker)
	$(PYTEST) --servers=containers $(ARGS)

check: $(ready) ## lint, formatting, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: $(ready) ## measure against the peers (ARGS=…)
	$(BIN)/python -m brokerjobs.servers
	$(BIN)/python -m tests.bench $(ARGS)

lock: ## renew requirements.txt from pyproject.toml (needs uv)
	uv pip compile --universal --python-version 3.11 --all-extras --group dev --generate-hashes --no-emit-index-url \
	  --no-header --quiet --output-file requirements.txt $(ARGS) pyproject.toml

clean: ## remove the virtual environment and all caches
	rm -rf .venv build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -prune -exec rm -rf {} +
