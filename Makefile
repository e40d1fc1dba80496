.DEFAULT_GOAL := help
.PHONY: help demo test check format gpu-test clean

PYTHON ?= python3
BIN := .venv/bin

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt "torch==2.13.0"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@

demo: .venv/ready ## Set up .venv and analyze BERT on whatever is in this machine
	$(BIN)/memorymark analyze bert

test: .venv/ready check ## Set up .venv and run every check and test
	$(BIN)/pytest

check: .venv/ready ## Lint, formatting and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: .venv/ready ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

gpu-test: .venv/ready ## The tests that need a CUDA GPU
	$(BIN)/pytest -m gpu

clean: ## Remove .venv and caches
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .hypothesis
