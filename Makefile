# Everything that is done to this project, by one word each. `make help` lists the words.
#
# A machine needs make and a Python >= 3.11 (or uv). The rest is installed into .tools, .venv and
# ui/node_modules by the first word that needs it, from the registries that pip, uv and npm are set
# up for. Node is the machine's, or else one that comes into .venv.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test check fmt types cluster bench clean

PYTHON ?=  # the interpreter that .venv is made with; when empty, the first on PATH that will do
PEERS ?=  # other frameworks to measure beside ours, as in: make bench PEERS="agno langgraph"
PYTEST ?=  # more arguments for pytest, as in: make test PYTEST="-k interrupt"
SYNC ?= --locked  # how .venv follows uv.lock: to the letter

bin := .venv/bin
# A browser beside them takes what tests of speed measure: so these come by themselves. When some
# are asked for by name, there may be none among them.
none_is_fine = $(if $(strip $(PYTEST)),|| test $$? = 5)
page := $(bin)/python ui/build.py
unexport VIRTUAL_ENV  # ours is .venv, whatever is active in this shell

help:  ## what can be done here
	@awk 'BEGIN {FS = ":.*## "} /^[a-z]+:.*## / {printf "  make %-7s %s\n", $$1, $$2}' Makefile

run: .venv/ready  ## serve chats on SQLite, with your model, or the demo if there is no key
	$(page)
	$(bin)/holdfast serve

test: check  ## check, then run every test
	$(page)
	$(page) run test
	$(bin)/python -m tests.browser.chromium
	$(bin)/python -m tests.store.postgres.pgbouncer
	$(bin)/pytest -n auto --dist worksteal --ignore tests/browser $(PYTEST)
	$(bin)/pytest -n auto --dist worksteal tests/browser $(PYTEST) $(none_is_fine)

check: .venv/ready  ## format, lint and types, without changing a file
	$(bin)/ruff format --check .
	$(bin)/ruff check .
	$(bin)/mypy
	$(bin)/python -m tests.server.typescript --check
	$(page) run check

fmt: .venv/ready  ## format, and mend what the linter can mend
	$(bin)/ruff format .
	$(bin)/ruff check --fix .
	$(page) run fmt

types: .venv/ready  ## write the page's types of the API anew, after a change of the API
	$(bin)/python -m tests.server.typescript

cluster: .venv/ready  ## three replicas over PostgreSQL behind a load balancer, on this machine
	$(bin)/python examples/cluster.py

bench: .venv/ready  ## measure, beside the least that the same work needs
	$(page)
	$(bin)/python -m bench $(if $(PEERS),--peers $(PEERS))

clean:  ## remove everything that make has made
	rm -rf .venv .tools dist .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf ui/node_modules holdfast/server/built
	find holdfast tests bench ui -name __pycache__ -prune -exec rm -rf {} +

# The stamp is newer than what it was made from: a second call does nothing.
.venv/ready: pyproject.toml uv.lock
	@$(find_python); $(find_uv); \
	sync() { \
	    echo "$$uv sync $(SYNC) $$*"; \
	    UV_PROJECT_ENVIRONMENT=.venv "$$uv" sync $(SYNC) $${python:+--python "$$python"} "$$@"; \
	}; \
	sync && { $(page) node >/dev/null 2>&1 || sync --group node; } || { \
	    echo 'make: could not install what uv.lock names (see above).' >&2; \
	    echo '      Where uv is set up for a mirror: make SYNC= ... (this writes uv.lock anew).' >&2; \
	    exit 1; }
	@touch $@

# Leaves the interpreter in $$python: the one asked for, or the first on PATH that is new enough.
# None is fine too where uv is installed, since uv can bring one.
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

# Leaves uv in $$uv: the one on PATH, or else our own in .tools.
define find_uv
uv=$$(command -v uv) || { \
    uv=.tools/bin/uv; \
    test -x "$$uv" || { \
        "$$python" -m venv .tools || { \
            rm -rf .tools; \
            echo "make: $$python cannot make a virtual environment (see above)." >&2; \
            echo '      On Debian and Ubuntu: apt install python3-venv. Or install uv.' >&2; \
            exit 1; }; \
        .tools/bin/python -m pip install --quiet --disable-pip-version-check 'uv>=0.7' || exit 1; \
    }; \
}
endef
