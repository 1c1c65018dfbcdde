# `make up` and `make test` set up everything they need; run `make` for the list.
PYTHON ?= python3.11
MODEL ?= smollm2
REPLICAS ?= 2
PORT ?= 8000
POLICY ?= pbkv
# Processes that share the tests. More than two start engines faster than two cores can run them.
JOBS ?= 2
# Further options: `make up ARGS="--redis-url redis://host:6379"`, `make test ARGS="-k pins"`.
ARGS ?=

VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install up test check demo agents paper gpu

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: ## create .venv with the engine for CPUs; nothing to do if it is current
	@PYTHON="$(PYTHON)" scripts/install.sh

up: install ## start the stack: MODEL=smollm2 REPLICAS=2 PORT=8000 POLICY=pbkv ARGS=
	@exec $(BIN)/pbkv up --model "$(MODEL)" --replicas "$(REPLICAS)" --port "$(PORT)" --policy "$(POLICY)" $(ARGS)

test: install agents ## run every test, engine and frameworks included: ARGS="-k name" JOBS=2
	@exec $(BIN)/python -m pytest -n "$(JOBS)" $(ARGS)

check: install ## format, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

demo: install ## compare LRU with PBKV on two stacks, with a page to read: ARGS=
	@exec $(BIN)/pbkv load demo $(ARGS)

agents: ## create .venv-agents with LangGraph, AutoGen and CrewAI; nothing to do if it is current
	@PYTHON="$(PYTHON)" scripts/install_agents.sh

paper: install ## the paper's tables and figures, simulated, into out/paper: ARGS=
	@exec $(BIN)/pbkv experiments paper --out out/paper $(ARGS)

gpu: install ## run the tests that need a CUDA device; they skip without one
	@exec $(BIN)/python -m pytest -m gpu $(ARGS)
