"""An agent written in Python, with deps and a typed output, on the page of `holdfast serve`."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import expect

from holdfast.testing import call
from tests.browser.harness import ROOT, Pages, Talk, scripted

SETTINGS = """
deps = "examples.refunds:shop"

[agents.refunds]
python = "examples.refunds:agent"
model = "anthropic:claude-opus-5-5"
"""


def test_a_call_of_an_agent_in_python_is_approved_on_the_page(
    open_page: Pages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = tmp_path / "ledger.txt"
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("LEDGER", str(ledger))
    with scripted(tmp_path / "home", SETTINGS) as (model, server):
        model.says(call("refund", order=7, amount=12), '{"order": 7, "refunded": 12}')
        talk = Talk.begin(open_page, server, "Refund 12 euros of order 7.")
        talk.log.get_by_role("button", name="Allow once").click()
        expect(talk.rows.last).to_contain_text('"refunded": 12')
        assert ledger.read_text().endswith("12 for order 7\n")
        talk.converges()
