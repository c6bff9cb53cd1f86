# Each habit of the project is one target. `make` alone lists them.

PYTHON ?= python3
# Test processes side by side: more than the two cores of CI, because many tests mostly wait.
WORKERS ?= 5
# More arguments for pytest: make test ARGS='-k epoch'
ARGS ?=

# Where Python is told not to keep what it has compiled, each of the thousands of processes would compile anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
UV := uv==0.13.7

.DEFAULT_GOAL := help
.PHONY: help serve check test cover bench soak lock fmt docs openapi clean pictures
.DELETE_ON_ERROR:

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

serve: .venv/.runtime ## Install what tiebreak needs to run, and serve the board (ARGS='--addr 127.0.0.1:7000')
	@$(BIN)/tb serve $(ARGS)

check: .venv/.stamp ## Formatting, lint, types, import layers, no registry named
	@tools/need git
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	tools/no-registry

test: .venv/.stamp ## All tests
	@tools/need git curl bash zsh fish man groff ip postgres pgbouncer tmux chromium
	$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

# Counting lines makes tests slow, so it is a run of its own over the tests that show what each part does. Left out are those
# that repeat the same lines with many processes, faults and random input: crash, faults, model, races, security and the like.
# `make test` judges the tests; this judges the lines alone: a test that fails here is reported, and counts what it reached.
COVERED := $(addprefix tests/,browser cli compat conformance daemon demo docs guard mcp migrate postgres_only restore sessions top unit upgrade vault worker)
COVERED += tests/security/test_browsers.py

cover: .venv/.stamp ## Count the lines that the tests reach, and fail below the gate (fail_under in pyproject.toml)
	@tools/need git curl bash zsh fish man groff ip postgres pgbouncer tmux chromium
	-$(BIN)/python -m pytest -n $(WORKERS) --cov --cov-report= --cov-fail-under=0 $(COVERED) $(ARGS)
	$(BIN)/coverage report

bench: .venv/.stamp ## Measure, and print the figures
	$(BIN)/python -m benchmarks $(ARGS)

soak: .venv/.stamp ## The tests that run for a long time
	@tools/need git
	$(BIN)/python -m pytest -m soak --timeout 0 $(ARGS)

lock: ## Pin all versions anew
	@PYTHON='$(PYTHON)' tools/need git python3-venv
	$(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install --quiet $(UV)
	build/lock/bin/uv pip compile $(LOCK_OPTIONS) pyproject.toml --extra serve --extra postgres --extra cron --extra mcp --extra top --group dev --output-file requirements/dev.lock
	build/lock/bin/uv pip compile $(LOCK_OPTIONS) pyproject.toml --extra serve --extra postgres --extra cron --extra mcp --extra top --group build \
		--constraint requirements/dev.lock --output-file requirements/runtime.lock
	tools/no-registry

# One lock for every supported Python and system. It says what to install, never from where.
LOCK_OPTIONS := --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-annotate --no-emit-index-url --custom-compile-command 'make lock'

fmt: .venv/.stamp ## Format, and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

pictures: .venv/.stamp ## Make the pictures of the README and the docs anew (ARGS=now)
	@tools/need chromium
	$(BIN)/python -m tools.pictures $(ARGS)

docs: .venv/.stamp ## Regenerate the references and the typed groups of the board
	$(BIN)/python -m tiebreak.groups.generate
	for name in cli operations; do \
		$(BIN)/python -m tiebreak.program.reference $$name > docs/$$name.md.new && mv docs/$$name.md.new docs/$$name.md; done
	$(BIN)/python -m tools.statements > docs/statements.sql.new && mv docs/statements.sql.new docs/statements.sql

# Not part of the tests: the linters are programs for Node, which nothing else here needs.
openapi: .venv/.stamp ## Lint the OpenAPI document that a daemon serves, with Redocly and Spectral
	@tools/need npm curl
	tools/lint-openapi $(BIN)/tb

clean: ## Remove everything that can be made again
	rm -rf .venv build dist htmlcov .coverage .coverage.* .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# ------------------------------------------------------------------------------------- environment

# The locks name every package, so pip has nothing to resolve (--no-deps): left to it, an extra such as coverage[toml] is
# resolved to a newer version than the pinned one as soon as there is one, and refused for having no hash.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "make: tiebreak needs Python 3.11 or later as $(PYTHON) (make PYTHON=…)" >&2; exit 1; }
	@case "$(CURDIR)" in *' '*) echo "make: the path of this folder has a space in it; scripts cannot start from there" >&2; exit 1;; esac
	@PYTHON='$(PYTHON)' tools/need python3-venv
	$(PYTHON) -m venv .venv

.venv/.runtime: .venv/bin/python pyproject.toml requirements/runtime.lock scripts/tb scripts/tiebreak
	$(PIP) install --require-hashes --no-deps -r requirements/runtime.lock
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

.venv/.stamp: .venv/.runtime requirements/dev.lock
	$(PIP) install --require-hashes --no-deps -r requirements/dev.lock
	@touch $@
