# A fresh machine needs Python >= 3.11 and make; every target sets up what it needs by itself.
#
#   make demo          run the main job against the sandbox
#   make test          the tests                                  ARGS="-k paging" passes options to pytest
#   make coverage      the tests of this process, with the coverage of lines and its bound; quick from Python 3.12 on
#   make test-more     the laws at 1,000 random examples each
#   make test-lowest   the tests with the lowest versions of the run-time dependencies
#   make check         ruff, mypy --strict, pyright
#   make bench         all benchmarks, in one table with the goals ARGS="--size 0.1"
#   make bench-pacing  the throttle against simulated servers
#   make proof         tools that know nothing of the package, against it; needs the network  ARGS="prism"
#   make docs          the documentation site, into build/site; make docs-serve shows it while you write
#   make clean         remove everything that make made
#
# PYTHON=python3.12 (a name or a path) chooses the interpreter; it then has an environment of its own, .venv-3.12.

PYTHON :=
ARGS :=
COVERAGE := 98
# A process for each core: one more would import and collect all once more, for few tests wait. Each takes tests that
# follow one another, so that most modules have their fixtures once.
JOBS := $(shell getconf _NPROCESSORS_ONLN) --dist worksteal

ifeq ($(strip $(PYTHON)),)
VENV := .venv
else
VERSION := $(shell '$(PYTHON)' -c 'import sys; print("%d.%d" % sys.version_info[:2])')
ifeq ($(VERSION),)
$(error PYTHON=$(PYTHON) does not run)
endif
VENV := .venv-$(VERSION)
endif
PY := $(VENV)/bin/python

# Tests start hundreds of processes: without compiled files each would compile the package anew.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: demo test coverage test-more test-lowest check bench bench-pacing proof docs docs-serve clean

demo: $(VENV)/.demo
	$(VENV)/bin/python examples/demo.py

test: $(VENV)/.dev
	$(PY) -m pytest -n $(JOBS) $(ARGS)

# Processes that tests start are not measured: tests that do hardly anything else are left out, and long simulations.
UNMEASURED := $(addprefix --ignore=tests/,cli/test_entry.py cli/test_export_runs.py cli/test_output.py \
	core/throttle/test_simulated.py journal/test_kill.py report/test_browser.py test_benchmarks.py test_dask.py \
	test_examples.py test_observers.py test_pytest_plugin.py test_ways_to_run.py)

# Lines, not branches, as sys.monitoring counts these for nothing, and only those before Python 3.14. The tracer of
# older Pythons takes twice the time.
coverage: $(VENV)/.dev
	$(PY) -m coverage erase
	COVERAGE_PROCESS_START=pyproject.toml COVERAGE_CORE=sysmon $(PY) -m pytest -n $(JOBS) $(UNMEASURED) $(ARGS)
	$(PY) -m coverage combine --quiet
	$(PY) -m coverage report --fail-under=$(COVERAGE)

test-more: $(VENV)/.dev
	$(PY) -m pytest -n $(JOBS) -m hypothesis --hypothesis-profile=more -o faulthandler_timeout=7200 $(ARGS)

test-lowest: .venv-lowest/.dev
	.venv-lowest/bin/python -m pytest -n $(JOBS) $(ARGS)

check: $(VENV)/.dev
	$(PY) -m ruff check
	$(PY) -m ruff format --check
	$(PY) -m mypy
	PYRIGHT_PYTHON_IGNORE_WARNINGS=1 $(PY) -m pyright --pythonpath $(PY)

bench: $(VENV)/.bench
	$(PY) -m benchmarks $(ARGS)

# A goal that is missed stops none of those after it.
bench-pacing: $(VENV)/.dev
	@missed=0; for part in "pacing $(ARGS)" "pacing.fuzz --count 60" pacing.scenarios pacing.nginx; do \
		$(PY) -m benchmarks.$$part || missed=1; done; exit $$missed

# schemathesis may fail on Python 3.11: PYTHON=python3.12
proof: $(VENV)/.dev
	$(PY) .ci/proof $(ARGS)

docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict $(ARGS)

docs-serve: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs serve $(ARGS)

clean:
	rm -rf .venv .venv-3.* .venv-lowest .mypy_cache .ruff_cache .pytest_cache .hypothesis .coverage .coverage.* htmlcov
	rm -rf build dist
	find src tests examples benchmarks -name __pycache__ -prune -exec rm -rf {} +

# The stamps say what is installed. A missing or newer interpreter, or another list of dependencies, renews them.
$(VENV)/.demo: EXTRA := cli
$(VENV)/.dev: EXTRA := dev
$(VENV)/.docs: EXTRA := docs
$(VENV)/.demo $(VENV)/.dev $(VENV)/.docs: pyproject.toml .ci/constraints.txt .ci/setup $(VENV)/bin/python
	@sh .ci/setup '$(VENV)' '$(EXTRA)' '$(PYTHON)'
	@touch $@

.venv-lowest/.dev: pyproject.toml .ci/constraints.txt .ci/setup .ci/lowest .venv-lowest/bin/python
	@bash .ci/lowest .venv-lowest '$(PYTHON)'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev benchmarks/requirements.txt
	$(PY) -m pip install -qq --disable-pip-version-check --no-input -r benchmarks/requirements.txt
	@touch $@

$(VENV)/bin/python .venv-lowest/bin/python: ;
