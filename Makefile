# What contributors run, in the environment that is active: see CONTRIBUTING.md.
# Arguments of pytest go into ARGS: make test ARGS="tests/frames -n 0"
PYTHON ?= python
PAGES ?= docs
SITE ?= site
EXTRAS = --extra lab --extra duckdb --extra dask --extra test
COMPILE = uv pip compile -q --no-annotate --no-header

.PHONY: test test-all lint docs lock wheels

test: # the quick part
	$(PYTHON) -m pytest $(ARGS)

test-all: # everything, with warnings as errors
	$(PYTHON) -m pytest --all --strict-warnings $(ARGS)

lint:
	ruff check . && ruff format --check . && mypy

docs: # the site
	sphinx-build -W -n -q $(PAGES) $(SITE)

lock: # binder/constraints.txt, from the newest of everything
	$(COMPILE) --upgrade --universal --python-version 3.11 --no-emit-package agentbook $(EXTRAS) pyproject.toml binder/packages.txt -o binder/constraints.txt

wheels: # whether the locked packages have wheels for every system that the README names; nothing is installed
	for python in 3.11 3.12 3.13 3.14; do for system in x86_64-manylinux_2_28 aarch64-manylinux_2_28 aarch64-apple-darwin windows; do \
	  echo "Python $$python, $$system" && $(COMPILE) --python-version $$python --python-platform $$system --only-binary :all: -c binder/constraints.txt $(EXTRAS) pyproject.toml -o /dev/null || exit 1; \
	done; done
