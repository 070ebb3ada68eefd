PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DASK := $(VENV)/dask

# Kernels come from .venv only, and every process gets one thread: two of them run side by side.
unexport JUPYTER_PATH
export JUPYTER_PREFER_ENV_PATH := 1
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export MKL_NUM_THREADS ?= 1

.PHONY: help book test check coverage lint chaos nbval references paper lab bench peers serve clean clean-all install lock crate same picture
.DEFAULT_GOAL := help

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' Makefile

book: $(STAMP) ## install, fetch the data, run the notebooks, build the book, say what to open
	@$(BIN)/fairfl build

test: lint $(STAMP) $(DASK)/.installed ## everything that is checked: style, types, tests, notebooks, the built book
	@$(BIN)/pytest -n 2 --dist loadfile
	@PYTHONPATH=tools $(BIN)/pytest -q -p finished_runs --nbval --nbval-sanitize-with tools/nbval.cfg notebooks

check: lint $(STAMP) ## while at work: style, types, and the tests that need neither a notebook nor a training; a minute
	@$(BIN)/pytest -n 2 --dist loadfile -m "not slow"

coverage: $(STAMP) ## list the lines of the library that none of its own tests runs; for people, nothing fails by it
	@$(BIN)/coverage run -m pytest -q tests/lite
	@$(BIN)/coverage report

chaos: $(STAMP) $(DASK)/.installed ## kill, starve and deceive it, and count what becomes of it: half an hour; PARTS="kills disk" for some of it
	@PYTHONPATH=tools $(BIN)/python -m chaos $(PARTS)
	$(if $(PARTS),,@PYTHONPATH=tools $(BIN)/python -m chaos.workers 50)

nbval: $(STAMP) ## let nbval itself execute every notebook and compare the text, without our runs
	@PYTHONPATH=tools NUMBA_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile -p patient --nbval --nbval-current-env \
	  --nbval-sanitize-with tools/nbval.cfg notebooks

paper: $(STAMP) ## measure the results at the papers' own scale, into results/
	@$(BIN)/fairfl paper

picture: book ## make README's picture anew from the front page; needs Chromium
	@PYTHONPATH=tools $(BIN)/python -m picture

lab: $(STAMP) ## open copies of the notebooks in JupyterLab, in lab/
	@$(BIN)/python -m fairfl_book.notebooks.lab
	@$(BIN)/jupyter lab --notebook-dir lab --LabApp.default_url /lab/tree/notebooks \
	  --LabApp.news_url=None --LabApp.check_for_updates_class=jupyterlab.handlers.announcements.NeverCheckForUpdate \
	  --LabApp.custom_css True --ServerApp.tornado_settings static_custom_path=$(CURDIR)/book/lab

peers: $(STAMP) ## compare our speed with plain torch, JAX, Flower and FedLab, into results/; each is installed in a folder of its own
	@-$(MAKE) --keep-going $(patsubst benchmarks/peers/%.lock,$(VENV)/peers/%/.installed,$(wildcard benchmarks/peers/*.lock))
	@$(BIN)/fairfl bench --peers

bench: $(STAMP) ## measure the speed of local training on this machine
	@$(BIN)/fairfl bench

serve: book ## build the book and serve it on http://localhost:8000
	@$(BIN)/python -m http.server --directory _build/html --bind 127.0.0.1 8000

clean: ## remove what is made from sources: runs, pages, the built book, caches
	@rm -rf _build executed .fairfl/runs .fairfl/failed .fairfl/tmp .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find fairfl_lite book tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

clean-all: clean ## the same, and what takes long: .venv, half-finished paper runs
	@rm -rf $(VENV) .fairfl

lint: $(STAMP)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy fairfl_lite book/fairfl_book book/papers

references: $(STAMP)
	@$(BIN)/fairfl references --update

install: $(STAMP)

crate: $(STAMP)
	@$(BIN)/python -m fairfl_book.site.crate

same: $(STAMP) ## build the book of this commit twice, each time from nothing, and compare the pages and the ledger
	@PYTHONPATH=tools $(BIN)/python -m same

lock: $(STAMP)
	@$(BIN)/python -m fairfl_book.site.lock

# Every file is held to a sha256 of the lock, and none is built here, which would fetch what no lock knows of. Torch comes first, in two
# steps: asked for hashes, pip passes over a CPU build in a folder of wheels, since a folder lists none.
PIP := $(BIN)/python -m pip --disable-pip-version-check
SEALED := $(PIP) install --quiet --require-hashes --no-deps --only-binary :all:

$(STAMP): requirements.lock requirements-cuda.lock pyproject.toml book/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 5))' || \
	  { echo "$(PYTHON) is older than Python 3.11.5: install a newer one, or name it by make PYTHON=python3.13"; exit 1; }
	@echo "Installing into $(VENV): a few minutes, once."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) download --quiet --no-deps --only-binary :all: --dest $(VENV)/torch "$$(sed -n 's/^\(torch==[^ ]*\).*/\1/p' requirements.lock)"
	@sed -n '/^torch==/,/[^\\]$$/p' requirements.lock > $(VENV)/torch/torch.lock
	@PIP_NO_INDEX=1 PIP_FIND_LINKS=$(CURDIR)/$(VENV)/torch $(SEALED) -r $(VENV)/torch/torch.lock
	@rm -r $(VENV)/torch
	@$(SEALED) -r requirements.lock
	@! $(PIP) check | grep '^torch .*not installed' > /dev/null || \
	  { echo "This build of torch needs the libraries of CUDA too: a few GB more."; $(SEALED) -r requirements-cuda.lock; }
	@$(PIP) install --quiet --no-deps --no-build-isolation -e . -e book
	@$(PIP) check | sed '/^No broken/d'
	@touch $@

# A folder of its own, which only the tests put on their path: what is installed for the book does not grow by it.
$(DASK)/.installed: requirements-dask.lock | $(STAMP)
	@rm -rf $(DASK)
	@$(SEALED) --target $(DASK) -r requirements-dask.lock
	@touch $@

# What our speed is compared with: folders that come before what the book has, and only for a contender's own process. FedLab is
# published as source alone.
$(VENV)/peers/%/.installed: benchmarks/peers/%.lock | $(STAMP)
	@rm -rf $(@D)
	@$(SEALED) --no-binary fedlab --no-build-isolation --target $(@D) -r $<
	@touch $@
