# make demo   shows a private answer about a video       make test   checks everything
# make setup  does the set-up alone (both do it themselves, and nothing twice)
# make verify checks for hours what make test checks for minutes
# make install puts the library and the extension where an existing PostgreSQL looks (docs/operators.md); make uninstall removes them

PYTHON := .venv/bin/python
PG_CONFIG ?= /usr/lib/postgresql/15/bin/pg_config
export PG_CONFIG PIP_DISABLE_PIP_VERSION_CHECK = 1
STAMPS := build/stamps
ROOMS := calculus cli engine fdw language ledger room sandbox udf video

.PHONY: setup demo test verify lint bench install uninstall clean library runtime moved
.DELETE_ON_ERROR:

setup: runtime

demo: setup
	@$(PYTHON) -m privid.cli.demo

# three at a time: much of a test is waiting for slots of the timetable, but what keeps a core busy in more stacks would starve the others
test: lint
	@$(PYTHON) -m pytest -n 3 --dist loadfile --no-loadscope-reorder

# what takes longer than a change can wait for: every program in tests/verify
verify: setup
	@for file in $$(grep -l '^if __name__' tests/verify/*.py); do echo "== $$file"; \
		$(PYTHON) -m "tests.verify.$$(basename "$$file" .py)" || exit 1; done

lint: setup build/types/privid
	@$(PYTHON) -m ruff check .
	@MYPYPATH=build/types $(PYTHON) -m mypy --explicit-package-bases build/types/privid tests examples $(wildcard bench/*.py) setup.py

bench: setup
	@for file in bench/*.py; do echo "== $$file"; $(PYTHON) "$$file" || exit 1; done

install: setup
	@$(PYTHON) -m privid.cli.main install

uninstall: setup
	@$(PYTHON) -m privid.cli.main uninstall

# mypy wants the package where its name says it is; the links are made anew whenever a room comes or goes
build/types/privid: $(MAKEFILE_LIST) $(wildcard core/*.py)
	@rm -rf $@ && mkdir -p $@
	@for file in core/*; do case $$file in *__pycache__*) ;; *) ln -s "../../../$$file" "$@/$${file##*/}";; esac; done
	@for room in $(ROOMS); do ln -s "../../../$$room" "$@/$$room"; done

# Set-up, in the order in which things need each other. Each step is quick when there is nothing to do.

library: $(STAMPS)/packages
	@$(MAKE) --no-print-directory -s -C fdw PG_CONFIG="$(PG_CONFIG)"
	@$(MAKE) --no-print-directory -s -C sandbox

runtime: $(STAMPS)/python
	@$(PYTHON) -m privid.sandbox.runtime >/dev/null

$(STAMPS)/packages: .ci/packages
	@bash .ci/packages
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/python: setup.py core/__init__.py pyproject.toml constraints.txt $(STAMPS)/place | library
	@echo "preparing .venv"
	@test -x $(PYTHON) || /usr/bin/python3 -m venv .venv
	@$(PYTHON) -m pip install -q -c constraints.txt setuptools wheel
	@$(PYTHON) -m pip install -q --no-build-isolation -c constraints.txt -e '.[dev]'
	@touch $@

# a virtual environment does not survive that its checkout moves
$(STAMPS)/place: moved
	@mkdir -p $(STAMPS)
	@test "$$(cat $@ 2>/dev/null)" = "$$PWD" || { test ! -e $@ || rm -rf .venv; echo "$$PWD" > $@; }

clean:
	@rm -rf build .venv .mypy_cache .ruff_cache .pytest_cache *.egg-info
	@test ! -e "$(PG_CONFIG)" || $(MAKE) --no-print-directory -s -C fdw PG_CONFIG="$(PG_CONFIG)" clean
	@$(MAKE) --no-print-directory -s -C sandbox clean
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
