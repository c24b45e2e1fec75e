"""Every async test runs in virtual time, and fails when it leaves a task behind."""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from holdfast.testing import VirtualLoop, no_leaked_tasks
from tests.late_io import late_loop

pytest_plugins = ["tests.databases"]

# What a shell starts in the background ignores Ctrl-C, and so would all that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The same examples each time, so that a red test is the change's doing. To look for new ones:
# HYPOTHESIS_PROFILE=search make test. What that finds becomes an @example.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("search", deadline=None, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))


def pytest_xdist_auto_num_workers() -> int:
    """Two for each processor: tests wait for databases and processes more than they compute."""
    return 2 * (os.cpu_count() or 1)


@pytest.fixture(scope="session")
def anyio_backend() -> tuple[str, dict[str, Any]]:
    seed = os.environ.get("LATE_IO")
    return "asyncio", {"loop_factory": late_loop(seed) if seed else VirtualLoop}


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: Any) -> Generator[None, object, object]:
    """Check for leaks around the test function itself: around each example of hypothesis too."""
    test = pyfuncitem.obj
    if inspect.iscoroutinefunction(test):
        pyfuncitem.obj = no_leaked_tasks()(test)
    elif hasattr(test, "hypothesis") and inspect.iscoroutinefunction(test.hypothesis.inner_test):
        test.hypothesis.inner_test = no_leaked_tasks()(test.hypothesis.inner_test)
    return (yield)
