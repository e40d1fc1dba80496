.DEFAULT_GOAL := help
.PHONY: help demo test python-test check generated format docs gpu-test dist light-test drills web web-test web-api servers demo-material clean

PYTHON ?= python3
# Another torch than the tested one, such as the oldest that is claimed: make test TORCH=2.6.0
TORCH ?= $(shell sed -n 's/^torch==//p' constraints.txt)
BIN := .venv/bin
# Byte code of what is imported is kept, whatever the environment says; that of all the rest is not made.
unexport PYTHONDONTWRITEBYTECODE
INSTALL = pip install --quiet --disable-pip-version-check --no-compile -c .venv/constraints.txt
PIP = $(BIN)/$(INSTALL)
UV = $(BIN)/uv pip install --quiet --python $(BIN)/python -c .venv/constraints.txt

help: ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	sed 's/^torch==.*/torch==$(TORCH)/' constraints.txt > .venv/constraints.txt
	$(PIP) torch uv
	@# uv takes a fifth of pip's time; where it does not reach the registry that pip is set up for, pip does it.
	$(UV) -e ".[dev]" || $(PIP) -e ".[dev]"
	@# Alone: of the torchvision that it asks for, the tests have a stand-in.
	$(UV) --no-deps timm || $(PIP) --no-deps timm
	@touch $@

demo: .venv/ready ## Set up .venv and analyze BERT on whatever is in this machine
	$(BIN)/memorymark analyze bert

test: ## Set up .venv and run every check and test
	$(MAKE) --no-print-directory -j3 .venv/ready web-test servers
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
	$(BIN)/python tools/generate_docs.py --check

generated: .venv/ready ## Write what is made from declared options and recorded results again
	$(BIN)/python tools/generate_keywords.py
	$(BIN)/python tools/generate_docs.py

format: .venv/ready ## Format the code
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: .venv/ready ## Build the documentation into build/site; a broken link is an error
	@# Not --quiet: warnings that it hides are not counted as errors.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

gpu-test: .venv/ready ## The tests that need a CUDA GPU
	$(BIN)/pytest -m gpu

dist: .venv/ready ## Build the wheel and the source archive into dist/, and check them
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/twine check --strict dist/*

light-test: dist ## Install the built wheel without extras into an environment of its own, and use it
	$(PYTHON) -m venv --clear build/light
	build/light/bin/$(INSTALL) torch
	build/light/bin/$(INSTALL) dist/*.whl
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

# Program and Debian package. The tests start each of them themselves, and skip what is not here.
SERVERS := chromium:chromium nginx:nginx prometheus:prometheus pg_ctlcluster:postgresql sqlite3:sqlite3 \
  systemd-analyze:systemd systemd-nspawn:systemd-container

servers: ## Get the browser, nginx and other servers for the tests, where apt and the rights are there
	@missing=; export PATH="$$PATH:/usr/sbin"; for each in $(SERVERS); do \
	  command -v $${each%:*} > /dev/null || missing="$$missing $${each#*:}"; done; \
	if [ -n "$$missing" ]; then \
	  install="apt-get install -y -qq --no-install-recommends$$missing"; \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && \
	    { $$install || { apt-get update -qq && $$install; }; } > /dev/null 2>&1; } || \
	  echo "not here, so their tests will be skipped:$$missing"; fi

demo-material: .venv/ready servers ## Make the recordings, slides and video of demo/ again; needs Chromium and ffmpeg
	@command -v ffmpeg > /dev/null || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && \
	    apt-get install -y -qq --no-install-recommends ffmpeg > /dev/null 2>&1; } || \
	  echo "ffmpeg is not here: there will be no video"
	$(BIN)/python demo/make_recordings.py
	$(BIN)/python demo/make_picture.py
	$(BIN)/python demo/make_slides.py
	$(BIN)/python demo/make_video.py

clean: ## Remove .venv and caches
	rm -rf .venv build dist web/node_modules .mypy_cache .pytest_cache .ruff_cache .hypothesis
