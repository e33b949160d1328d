# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.ready
# One more than CI has cores: many tests wait for processes, disks and clocks.
WORKERS ?= 3
FUZZER := $(VENV)/.fuzzer
SITE := $(VENV)/.site
PEERS := $(VENV)/.peers
PYRIGHT := $(VENV)/.pyright
TARGET ?= all
SECONDS ?=
RUNS ?=
MUTANTS ?= --resume
# A terminal shows the progress of downloads, a log only what goes wrong.
PIP_QUIET := $(shell test -t 2 || echo --quiet)

.DEFAULT_GOAL := help
.PHONY: help setup demo check generate format test campaign fuzz planted mutants compare docs pyright dist requirements clean

help: ## Say what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Make .venv with everything, pinned; does nothing when it is there already

$(STAMP): requirements/dev.txt requirements/plot.txt requirements/spark.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Ithaca needs Python 3.11 or newer: install it, or say make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) tools/find_python.py
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "The venv module is missing: install python3-venv with your package manager" >&2; exit 1; }
	@echo "Installing pinned packages into $(VENV); with Spark this takes a few minutes"
	@echo "1 of 4: the log, its tools and its tests"
	@$(BIN)/python -m pip install $(PIP_QUIET) --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@echo "2 of 4: pictures"
	@$(BIN)/python -m pip install $(PIP_QUIET) --disable-pip-version-check --require-hashes -r requirements/plot.txt
	@echo "3 of 4: Spark"
	@$(BIN)/python -m pip install $(PIP_QUIET) --disable-pip-version-check --no-build-isolation --require-hashes -r requirements/spark.txt
	@echo "4 of 4: Ithaca itself"
	@$(BIN)/python -m pip install $(PIP_QUIET) --disable-pip-version-check --no-build-isolation --no-deps --editable .
	@$(BIN)/python tools/find_java.py
	@touch $@
	@echo "Ready. Next: make demo, or $(BIN)/ithaca up; $(BIN)/ithaca --help says the rest"

demo: setup ## Run the main job: a cluster, payments, fraud alerts by Spark, analytics, a picture (needs Java 17)
	@$(BIN)/ithaca demo

check: setup ## Format, lint, strict types, import direction, generated code
	@$(BIN)/ruff format --check src tests tools
	@$(BIN)/ruff check src tests tools
	@$(BIN)/python -m tools.examples
	@$(BIN)/mypy src tests tools build/examples
	@$(BIN)/lint-imports
	@$(BIN)/python tools/generate_sync.py --check
	@$(BIN)/python -m tools.reference --check

generate: setup ## Write again what is generated: the synchronous twins, and the reference in docs
	@$(BIN)/python tools/generate_sync.py
	@$(BIN)/python -m tools.reference

format: setup ## Rewrite the sources in the house format
	@$(BIN)/ruff format src tests tools
	@$(BIN)/ruff check --fix src tests tools

test: check ## Check, then all tests with samples of the campaigns
	@$(BIN)/pytest -n $(WORKERS) -m "not campaign"

campaign: check ## The campaigns at their full counts
	@$(BIN)/pytest -n $(WORKERS) -m campaign --timeout 7200

fuzz: $(FUZZER) ## Decoders under a coverage-guided fuzzer: TARGET=all, SECONDS=60 for each, or RUNS=10000000
	@$(BIN)/python tools/fuzz.py --target $(TARGET) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(RUNS),--runs $(RUNS))

planted: setup ## Are bugs on purpose caught by the simulator's seeds? BUGS="name ..." for some
	@$(BIN)/python -m tests.planted $(BUGS)

mutants: setup ## Small mistakes in a sample of lines: who notices? Hours; MUTANTS="--by tests --limit 20" for the next 20
	@$(BIN)/python -m tools.mutants $(MUTANTS)

$(FUZZER): requirements/fuzz.txt | setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/fuzz.txt
	@touch $@

compare: $(PEERS) ## Beside Kafka, BookKeeper, NATS, Redis, SQLite and a file; COMPARE="--full" for all workloads
	@$(BIN)/ithaca bench compare $(COMPARE)

$(PEERS): requirements/compare.txt | setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/compare.txt
	@touch $@

# The theme announces its successor in every build, which make need not say again.
docs: $(SITE) ## The documentation as a site, build/site/index.html; a link to nowhere is an error
	@$(BIN)/python -m tools.reference --check
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "Open build/site/index.html; to search, too: $(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site"

$(SITE): requirements/docs.txt | setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

pyright: $(PYRIGHT) ## The examples of README and guides under pyright, too, by basedpyright, which brings its own node
	@$(BIN)/python -m tools.examples
	@$(BIN)/basedpyright

$(PYRIGHT): requirements/pyright.txt | setup
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/pyright.txt
	@touch $@

dist: setup ## A wheel to install elsewhere, in dist
	@rm -rf build/lib build/bdist.*
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir dist .
	@echo "Install it with: pip install $$(ls -t dist/ithaca-*.whl | head -1), or with extras: pip install \"$$(ls -t dist/ithaca-*.whl | head -1)[arrow,spark]\""

# Of atheris the last that has a wheel for Python 3.11.
requirements: setup ## Pin the newest versions again (needs uv)
	@command -v uv >/dev/null || { echo "Pinning needs uv: install it with pip install uv" >&2; exit 1; }
	@uv pip compile pyproject.toml --extra dev --extra arrow --python-version 3.11 --universal --fork-strategy fewest --generate-hashes --upgrade --quiet --no-header --no-annotate --no-emit-index-url -o requirements/dev.txt
	@uv pip compile pyproject.toml --extra plot --constraint requirements/dev.txt --python-version 3.11 --universal --fork-strategy fewest --generate-hashes --upgrade --quiet --no-header --no-annotate --no-emit-index-url -o requirements/plot.txt
	@uv pip compile pyproject.toml --extra spark --constraint requirements/dev.txt --python-version 3.11 --universal --fork-strategy fewest --generate-hashes --upgrade --quiet --no-header --no-annotate --no-emit-index-url -o requirements/spark.txt
	@echo 'atheris<3.1' | uv pip compile - --python-version 3.11 --universal --fork-strategy fewest --generate-hashes --upgrade --quiet --no-header --no-annotate --no-emit-index-url -o requirements/fuzz.txt
	@uv pip compile pyproject.toml --extra compare --constraint requirements/dev.txt --python-version 3.11 --universal --fork-strategy fewest --generate-hashes --upgrade --quiet --no-header --no-annotate --no-emit-index-url -o requirements/compare.txt
	@echo basedpyright | uv pip compile - --python-version 3.11 --universal --fork-strategy fewest --generate-hashes --upgrade --quiet --no-header --no-annotate --no-emit-index-url -o requirements/pyright.txt
	@echo mkdocs-material | uv pip compile - --constraint requirements/dev.txt --python-version 3.11 --universal --fork-strategy fewest --generate-hashes --upgrade --quiet --no-header --no-annotate --no-emit-index-url -o requirements/docs.txt

clean: ## Remove what was made here, the virtual environment included
	rm -rf $(VENV) build dist demo-data bench-data campaign-data compare .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache src/*.egg-info
