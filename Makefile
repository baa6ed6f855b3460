# Everything a newcomer needs: each target sets up what it uses.  make help
PYTHON ?= python3
VENV   ?= .venv$(if $(filter-out python3,$(PYTHON)),-$(shell $(PYTHON) -c 'import sys; print(*sys.version_info[:2], sep=".")'))
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
MODELS := $(VENV)/.installed-llm
PYTEST := $(BIN)/python -m pytest

.PHONY: help setup demo reproduce browser test check bench docs generated pictures clean

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

setup: $(STAMP) ## virtual environment with everything but torch and language models

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

$(MODELS): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,llm]'
	@touch $@

demo: $(STAMP) ## the paper's main comparison, table and figure; then ours and the best of the field at two budgets
	$(BIN)/zocosmo run configs/rosenbrock.yaml --out build/demo --replace
	$(BIN)/zocosmo table build/demo --bits 100000 --rounds
	$(BIN)/zocosmo table build/demo --bits 100000 --against ZO-COSMO
	$(BIN)/zocosmo figure build/demo --to build/demo/rosenbrock.png --to build/demo/rosenbrock.svg
	$(BIN)/zocosmo compare configs/demo-second.yaml --brief --out build/demo-second --replace

reproduce: $(MODELS) ## the paper, rerun: tables, figures and constants with verdicts; build/reproduction/report/index.html
	$(BIN)/zocosmo reproduce all --out build/reproduction

browser: $(STAMP) ## a Chromium and its driver, for tests of the report and of the live page; without them those are skipped
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && \
	  timeout 300 sh -c 'apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium' \
	  >/dev/null 2>&1; } || echo 'no Chromium can be installed here: tests of the report in a browser will be skipped'
	@timeout 300 $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt playwright \
	  || echo 'Playwright cannot be installed here: tests of the report in a browser will be skipped'

test: $(MODELS) ## the test suite
	$(PYTEST) -n 2 -q

check: $(MODELS) ## format, lint, types, layers, public names, doctests, docs
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST) -q tests/test_layers.py tests/test_public_names.py
	$(PYTEST) -q --doctest-modules src/zocosmo src/zocosmo_paper
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site

bench: $(MODELS) ## every benchmark, each against its floor or peer in the same run
	$(BIN)/python benchmarks/imports.py
	$(BIN)/python benchmarks/support.py
	$(BIN)/python benchmarks/codecs.py
	$(BIN)/python benchmarks/few_bits.py
	$(BIN)/python benchmarks/fuzz.py
	$(BIN)/python benchmarks/boxes.py
	$(BIN)/python benchmarks/rigs.py
	$(BIN)/python benchmarks/defaults.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/peers.py
	$(BIN)/python benchmarks/link.py
	$(BIN)/python benchmarks/hangs.py
	$(BIN)/python benchmarks/fused.py
	$(BIN)/python benchmarks/full_model.py --tiny
	$(BIN)/python benchmarks/watch.py
	$(BIN)/python benchmarks/same_bits.py --against HEAD

docs: $(STAMP) ## the documentation, served on localhost
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

generated: $(MODELS) ## the parts of the documentation that come from the code
	$(BIN)/python docs/generate.py
	$(BIN)/python docs/packages.py
	$(BIN)/python docs/api.py
	$(BIN)/python docs/notebooks.py

pictures: $(MODELS) ## the pictures of docs; models.svg needs zocosmo model get smollm2
	$(BIN)/python docs/round.py docs/img/round.svg
	$(BIN)/python docs/pictures.py

clean:
	rm -rf .venv .venv-* build .pytest_cache .mypy_cache .ruff_cache .hypothesis
