"""Both servers of the API: its own, and one of an application that it is mounted into."""

from __future__ import annotations

import pytest

from tests.server import api


@pytest.fixture(params=["aiohttp", "uvicorn"])
def each_server(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have `serving_api` serve by each of them."""
    monkeypatch.setattr(api, "MOUNTED", request.param == "uvicorn")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Both servers, both databases, but not all pairs: they do not know of each other."""
    items[:] = [item for item in items if not is_needless(item)]


def is_needless(item: pytest.Item) -> bool:
    call = getattr(item, "callspec", None)
    values = () if call is None else call.params.values()
    return "uvicorn" in values and "postgres" in values
