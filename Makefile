# Everything runs in .venv, which the first target that needs it creates from Python and the package registry alone.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test test-lowest test-newest quick check bench docs dist lock clean help

# One process for each core, and two for the tests that start others and wait for them.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print((os.cpu_count() or 1) + 2)')
PYTEST  := $(BIN)/python -m pytest --workers $(WORKERS)
# Processes fill the cores: threads within them would wait for each other. What was compiled is kept for the next process.
# argparse looks for translations of its words on the disk, for every word anew, unless it is told that there are none.
test quick: export OPENBLAS_NUM_THREADS := 1
test quick: export OMP_NUM_THREADS := 1
test quick: export PYTHONDONTWRITEBYTECODE :=
test quick: export LANGUAGE := C

help:
	@echo "make demo   set up and train two parties on data shipped with scikit-learn"
	@echo "make test   set up, check style and types, run every test"
	@echo "make test-lowest, make test-newest  the same tests with the oldest and the newest packages allowed, in environments of their own"
	@echo "make quick  style, types and the tests that are soon done, for the time between two changes"
	@echo "make check  style and types only"
	@echo "make docs   set up and build the documentation into site/"
	@echo "make dist   build wheels and source archives twice, compare them byte for byte, list what they need (dist/)"
	@echo "make lock   pin every package that a developer needs, with its digest (requirements.lock)"
	@echo "make bench  ratios against peers, measured in one run (a few minutes)"

$(READY): pyproject.toml papers/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Tacit needs Python 3.11 or newer: set PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]' -e papers
	@touch $@

demo: $(READY)
	$(BIN)/tacit demo
	@echo "(tacit is in $(BIN): put it on your PATH with . $(BIN)/activate)"

check: $(READY)
	$(BIN)/ruff check src tests bench docs papers
	$(BIN)/ruff format --check src tests bench papers docs/*.py docs/images/*.py docs/gallery/*.py
	$(BIN)/mypy

# Style and types are checked beside the tests, and end them where something is wrong.
SAID   := $(VENV)/check.log
BESIDE = @$(MAKE) --no-print-directory check > $(SAID) 2>&1 & check=$$!; $(1) & tests=$$!; \
	trap 'kill $$check $$tests; wait; exit 130' INT TERM; \
	wait $$check || { kill $$tests; wait $$tests; cat $(SAID); exit 1; }; \
	wait $$tests; code=$$?; cat $(SAID); exit $$code

test: $(READY)
	$(call BESIDE,$(PYTEST) $(FLAGS))

# The tests with other versions of what Tacit needs: the lowest that pyproject.toml names, and the newest there are. Packages of
# different years warn of each other: warnings are no errors here.
test-lowest: RESOLUTION := lowest-direct
test-newest: RESOLUTION := highest
test-lowest test-newest: export OPENBLAS_NUM_THREADS := 1
test-lowest test-newest: export OMP_NUM_THREADS := 1
test-lowest test-newest: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv venv --quiet --clear --python $(BIN)/python .venv-$(RESOLUTION)
	$(BIN)/uv pip install --quiet --upgrade --resolution $(RESOLUTION) --python .venv-$(RESOLUTION)/bin/python -e '.[dev]' -e papers
	.venv-$(RESOLUTION)/bin/python -m tacit.cli.main --version --verbose
	.venv-$(RESOLUTION)/bin/python -m pytest --workers $(WORKERS) -W default $(FLAGS)

quick: $(READY)
	$(call BESIDE,$(PYTEST) -m 'not slow' $(FLAGS))

bench: $(READY)
	$(BIN)/python -m bench

docs: $(READY)
	$(BIN)/python -m sphinx -q -W --keep-going -d site/.doctrees docs site
	@echo "open site/index.html (it needs no server and no network)"

# Two builds of a commit are the same bytes: times in archives come from the commit. The list of materials is that of the wheel alone.
dist: export SOURCE_DATE_EPOCH := $(shell git log -1 --format=%ct)
dist: $(READY)
	rm -rf dist .venv-dist
	$(BIN)/python -m pip install --quiet --disable-pip-version-check build cyclonedx-bom
	@for copy in dist .venv-dist/again; do for part in . papers; do $(BIN)/python -m build --outdir $$copy $$part >$(VENV)/build.log 2>&1 || { cat $(VENV)/build.log; exit 1; }; done; done
	@for file in dist/*; do cmp $$file .venv-dist/again/$$(basename $$file) || exit 1; sha256sum $$file; done
	$(PYTHON) -m venv .venv-dist/wheel
	.venv-dist/wheel/bin/python -m pip install --quiet --disable-pip-version-check dist/tacit-[0-9]*.whl
	$(BIN)/cyclonedx-py environment --output-reproducible --output-file dist/tacit.cdx.json .venv-dist/wheel
	cd .venv-dist && wheel/bin/tacit demo --out demo-run >/dev/null && echo "the wheel alone runs its demo"

lock: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --universal --all-extras --generate-hashes --no-emit-index-url --no-annotate --no-header --upgrade \
		--python-version 3.11 --no-emit-package tacit --output-file requirements.lock pyproject.toml

clean:
	rm -rf $(VENV) .venv-* dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
