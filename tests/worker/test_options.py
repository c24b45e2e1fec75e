"""What a worker can be told, and what it refuses."""

from __future__ import annotations

from math import inf, nan
from typing import Any

import pytest

from holdfast.kernel.errors import ConfigError
from holdfast.worker.options import WorkerOptions

NAMES = WorkerOptions.__struct_fields__


@pytest.mark.parametrize("value", [nan, inf, -inf, -1])
@pytest.mark.parametrize("name", NAMES)
def test_a_number_that_is_no_time_and_no_count_is_refused(name: str, value: float) -> None:
    given: dict[str, Any] = {name: value}
    with pytest.raises(ConfigError, match=f"{name} is {value!r}: use"):
        WorkerOptions(**given)


def test_a_worker_may_have_no_grace() -> None:
    assert WorkerOptions(grace=0).grace == 0


def test_a_lease_is_as_long_as_three_heartbeats() -> None:
    assert WorkerOptions(lease=3, heartbeat=1).lease == 3
    with pytest.raises(ConfigError, match="three heartbeats"):
        WorkerOptions(lease=2.9, heartbeat=1)
