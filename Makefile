# The targets for working on this project. `make help` lists them.
#
# A machine needs make and Python >= 3.11 (or uv). Everything else is installed into .tools, .venv and
# ui/node_modules by the first target that needs it, from the registries that pip, uv and npm are
# configured for. Node is the machine's own, or else one that is installed into .venv.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test check fmt types docs cluster bench clean

PYTHON ?=  # the interpreter for .venv; if empty, the first one on PATH that is new enough
PEERS ?=  # other frameworks to measure too, as in: make bench PEERS="agno langgraph"
PYTEST ?=  # additional arguments for pytest, as in: make test PYTEST="-k interrupt"
SYNC ?= --locked  # option of uv sync: .venv has exactly what uv.lock names

bin := .venv/bin
# The browser tests run separately: a browser would disturb the tests that measure speed. If PYTEST
# selects tests, it may select none of them (exit code 5).
none_is_fine = $(if $(strip $(PYTEST)),|| test $$? = 5)
page := $(bin)/python ui/build.py
unexport VIRTUAL_ENV  # we use .venv, even if another environment is active

help:  ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' Makefile

run: .venv/ready  ## run the server on SQLite, with your model, or with the demo if there is no key
	$(page)
	$(bin)/holdfast serve

test: check  ## check, then run all tests
	$(page)
	$(page) run test
	$(bin)/python -m tests.browser.chromium
	$(bin)/python -m tests.store.postgres.pgbouncer
	$(bin)/pytest -n auto --dist worksteal --ignore tests/browser $(PYTEST)
	$(bin)/pytest -n auto --dist worksteal tests/browser $(PYTEST) $(none_is_fine)

check: .venv/ready  ## check format, lint and types; changes nothing
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(bin)/mypy
	$(bin)/python -m tests.server.typescript --check
	$(page) run check

fmt: .venv/ready  ## format, and fix what the linter can fix
	$(bin)/ruff format .
	$(bin)/ruff check --fix .
	$(page) run fmt

types: .venv/ready  ## regenerate the page's API types, after a change of the API
	$(bin)/python -m tests.server.typescript

docs: .venv/ready  ## build the documentation site in .docs/site
	$(bin)/python docs/build.py

cluster: .venv/ready  ## run three replicas on PostgreSQL with a load balancer, on this machine
	$(bin)/python examples/cluster.py

bench: .venv/ready  ## run the benchmarks; PEERS=all includes other frameworks
	$(page)
	$(bin)/python -m bench $(if $(PEERS),--peers $(PEERS))

clean:  ## remove everything that make has installed or built
	rm -rf .docs .venv .tools dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf ui/node_modules holdfast/server/built
	find holdfast tests bench ui -name __pycache__ -prune -exec rm -rf {} +

# The stamp is newer than its sources: a second call does nothing.
.venv/ready: pyproject.toml uv.lock
	@$(find_python); $(find_uv); \
	sync() { \
	    echo "$$uv sync $(SYNC) $$*"; \
	    UV_PROJECT_ENVIRONMENT=.venv "$$uv" sync $(SYNC) $${python:+--python "$$python"} "$$@"; \
	}; \
	sync && { $(page) node >/dev/null 2>&1 || sync --group node; } || { \
	    echo 'make: could not install what uv.lock names (see above).' >&2; \
	    echo '      If uv uses a mirror: make SYNC= ... (this rewrites uv.lock).' >&2; \
	    exit 1; }
	@touch $@

# Sets $$python to the interpreter: the one in PYTHON, or the first on PATH that is new enough.
# It may stay empty if uv is installed, since uv can install one.
define find_python
asked='$(strip $(PYTHON))'; python=; \
tried=$${asked:-python3 python3.14 python3.13 python3.12 python3.11 python}; \
for candidate in $$tried; do \
    python=$$("$$candidate" -c "$$new_enough" 2>/dev/null) && break; \
done; \
if test -z "$$python" && { test -n "$$asked" || ! command -v uv >/dev/null; }; then \
    echo "make: found no Python >= 3.11 (tried: $$tried)." >&2; \
    echo '      Install one, or name yours: make PYTHON=/path/to/python3.11 ...' >&2; \
    exit 1; \
fi
endef
export new_enough := import sys; sys.version_info >= (3, 11) or sys.exit(1); print(sys.executable)

# Sets $$uv to uv: the one on PATH, or else our own in .tools.
define find_uv
uv=$$(command -v uv) || { \
    uv=.tools/bin/uv; \
    test -x "$$uv" || { \
        "$$python" -m venv .tools || { \
            rm -rf .tools; \
            echo "make: $$python cannot create a virtual environment (see above)." >&2; \
            echo '      On Debian and Ubuntu: apt install python3-venv. Or install uv.' >&2; \
            exit 1; }; \
        .tools/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.7' || exit 1; \
    }; \
}
endef
