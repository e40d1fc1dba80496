.DEFAULT_GOAL := help
.PHONY: help demo test python-test check generated format docs gpu-test light-test drills web web-test web-api browser clean

PYTHON ?= python3
BIN := .venv/bin
# Byte code of what is imported is kept, whatever the environment says; that of all the rest is not made.
unexport PYTHONDONTWRITEBYTECODE
INSTALL = pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt
PIP = $(BIN)/$(INSTALL)

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) "torch==2.13.0"
	$(PIP) -e ".[dev]"
	@# Alone: of the torchvision that it asks for, the tests have a stand-in.
	$(PIP) --no-deps timm
	@touch $@

demo: .venv/ready ## Set up .venv and analyze BERT on whatever is in this machine
	$(BIN)/memorymark analyze bert

test: ## Set up .venv and run every check and test
	$(MAKE) --no-print-directory -j3 .venv/ready web-test browser
	$(MAKE) --no-print-directory -j3 check web-api python-test

# First once, so that not every tester compiles the same packages; then four, on two cores too: many tests wait.
python-test: .venv/ready
	@$(BIN)/pytest --collect-only -qq > /dev/null
	$(BIN)/pytest -n 4 --dist loadfile --no-loadscope-reorder

check: .venv/ready ## Lint, formatting, layers and types only
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@if [ -x $(BIN)/lint-imports ]; then $(BIN)/lint-imports --no-cache --no-logo; \
	  else echo "import-linter needs Python 3.11: what may import what is not checked"; fi
	$(BIN)/mypy
	$(BIN)/python tools/generate_keywords.py --check

generated: .venv/ready ## Write what is made from the declared options again
	$(BIN)/python tools/generate_keywords.py

format: .venv/ready ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/ready ## Build the documentation into build/site; a broken link is an error
	@# Not --quiet: warnings that it hides are not counted as errors.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

gpu-test: .venv/ready ## The tests that need a CUDA GPU
	$(BIN)/pytest -m gpu

light-test: .venv/ready ## Install the package without extras into an environment of its own, and use it
	$(PYTHON) -m venv --clear build/light
	build/light/bin/$(INSTALL) "torch==2.13.0"
	build/light/bin/$(INSTALL) .
	MEMORYMARK_LIGHT_PYTHON=$(CURDIR)/build/light/bin/python $(BIN)/pytest tests/test_light_install.py

drills: .venv/ready ## Break a real service on this machine in every way that is promised to hold; 15 minutes
	$(BIN)/python benchmarks/drills.py

web/node_modules/ready: web/package.json web/package-lock.json
	cd web && npm install --no-save --no-progress --loglevel=error
	@touch $@

web: web/node_modules/ready ## Build the dashboard into the package; needs Node
	cd web && npm run --silent build

web-test: ## The dashboard's own checks and tests, where there is Node
	@if ! command -v npm > /dev/null || ! $(MAKE) --no-print-directory web/node_modules/ready; \
	  then echo "npm or its packages are not here: the dashboard's own tests are left out"; \
	  else cd web && npm run --silent check:types && npm run --silent check:lint && npm run --silent test; fi

web-api: .venv/ready # Whether the dashboard's types are those of the service
	@if [ -e web/node_modules/ready ]; then cd web && PYTHON=../$(BIN)/python npm run --silent check:api; fi

browser: ## Get Chromium for the tests in a browser, where apt and the rights are there
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || command -v google-chrome > /dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && \
	    apt-get install -y -qq chromium > /dev/null 2>&1; } || \
	  echo "Chromium is not here: the tests in a browser will be skipped"

clean: ## Remove .venv and caches
	rm -rf .venv build web/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis
