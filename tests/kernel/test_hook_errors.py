"""Exceptions of hooks: one that may pass is retried, a mistake in code ends the run at once."""

from __future__ import annotations

import asyncio
import json
import logging
import traceback
from pathlib import Path
from typing import Any

import pytest

from holdfast import Agent, tool
from holdfast.errors import ConfigError, ProviderError, RunFailed, StoreError
from holdfast.hooks import Context
from holdfast.kernel.errors import EmptyResponse, classify
from holdfast.kernel.hook_call import may_pass
from holdfast.options import Policy, Retry
from holdfast.testing import ScriptedModel, call
from tests.kernel.runs import act, now, outcome, scripted


class LibraryError(KeyError):
    """An error that a library derives from one of Python's."""


def misspelt(context: Context, *_: object) -> Any:
    return owner_of(context)


def owner_of(context: Any) -> Any:
    return context.ownr


@pytest.mark.parametrize("hook", ["instructions", "active", "project"])
async def test_a_mistake_in_a_hook_ends_the_run_at_once(
    hook: str, caplog: pytest.LogCaptureFixture
) -> None:
    hooks: dict[str, Any] = {hook: misspelt}
    began = now()
    result = await outcome(scripted(["Never."], **hooks).replace(name="clerk").run("Go."))
    assert now() == began
    assert result.failure is not None
    assert (result.failure.kind, result.failure.retryable) == ("prepare", False)
    assert result.failure.message == "A function of the agent clerk failed."
    assert "no attribute 'ownr' (test_hook_errors.py, line " in result.failure.detail
    (record,) = caplog.records
    assert (record.levelno, record.name) == (logging.WARNING, "holdfast")
    assert record.exc_info is not None
    assert frames_of(record.exc_info[1]) == ["misspelt", "owner_of"]


async def cancelled_inside(*_: object) -> Any:
    lost: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    lost.cancel()
    return await lost


@pytest.mark.parametrize("hook", ["instructions", "active", "project", "guard"])
async def test_a_hook_that_awaits_what_was_cancelled_fails_the_run(hook: str) -> None:
    hooks: dict[str, Any] = {hook: cancelled_inside, "policy": Policy(retry=Retry(attempts=1))}
    result = await outcome(scripted(["Yes."], **hooks).run("Go."))
    assert result.failure is not None
    detail = f"{result.failure.message} {result.failure.detail}"
    assert "StrayCancellation: it awaited a task or a future that was cancelled" in detail


async def test_a_gate_that_awaits_what_was_cancelled_denies_the_call() -> None:
    ran: list[bool] = []

    def work() -> None:
        """Work."""
        ran.append(True)

    agent = scripted([[call("work")], ["Sorry."]], tool(work), gate=cancelled_inside)
    assert (await agent.run("Go.")).text == "Sorry."
    assert not ran


async def test_the_failed_run_is_caused_by_the_exception_of_the_hook() -> None:
    agent = scripted(["Never."], instructions=misspelt)
    with pytest.raises(RunFailed) as raised:
        await agent.run("Go.")
    cause = raised.value.__cause__
    assert isinstance(cause, AttributeError)
    assert frames_of(cause) == ["misspelt", "owner_of"]


def test_the_traceback_of_run_sync_has_only_the_frames_of_the_caller() -> None:
    agent = Agent(ScriptedModel(["Never."]), instructions=misspelt)
    with pytest.raises(RunFailed) as raised:
        agent.run_sync("Go.")
    assert {Path(entry.path).name for entry in raised.traceback} == {"test_hook_errors.py"}


async def test_a_hook_with_wrong_parameters_is_named_by_its_definition() -> None:
    def without_parameters() -> str:
        return "Be brief."

    hooks: dict[str, Any] = {"instructions": without_parameters}
    result = await outcome(scripted(["Never."], **hooks).run("Go."))
    assert result.failure is not None
    line = without_parameters.__code__.co_firstlineno
    assert result.failure.detail.endswith(f"(test_hook_errors.py, line {line})")


def frames_of(error: BaseException | None) -> list[str]:
    assert error is not None
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def error_of_html() -> Exception:
    with pytest.raises(json.JSONDecodeError) as error:
        json.loads("<html>")
    return error.value


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (TypeError(), False),
        (AttributeError(), False),
        (NameError(), False),
        (KeyError(), False),
        (IndexError(), False),
        (ValueError(), False),
        (UnicodeDecodeError("utf-8", b"", 0, 1, "no"), False),
        (AssertionError(), False),
        (ModuleNotFoundError(), False),
        (NotImplementedError(), False),
        (ZeroDivisionError(), False),
        (ExceptionGroup("one", [TypeError()]), False),
        (ConfigError("set it"), False),
        (ProviderError(status=401), False),
        (ProviderError(status=529), True),
        (error_of_html(), True),
        (LibraryError(), True),
        (StoreError("the database is down"), True),
        (RuntimeError(), True),
        (OSError(), True),
        (TimeoutError(), True),
        (Exception("unknown"), True),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_an_exception_of_a_hook_may_pass_unless_it_is_a_mistake_in_code(
    error: Exception, passes: bool
) -> None:
    assert may_pass(error) is passes


@pytest.mark.parametrize("kind", [ProviderError(status=402), EmptyResponse()])
def test_a_sentence_without_a_model_begins_with_a_capital_and_has_no_other(kind: Exception) -> None:
    message = classify(kind).message
    assert message[0].isupper()
    assert "The model" not in message[1:]


@pytest.mark.parametrize(("hook", "level"), [("gate", logging.WARNING), ("guard", logging.INFO)])
async def test_the_log_has_the_traceback_of_a_gate_and_of_a_guard(
    hook: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """That of a guard is at INFO: a warning of the failed turn follows, with the place."""
    caplog.set_level(logging.INFO, "holdfast")
    hooks: dict[str, Any] = {hook: misspelt}
    await outcome(scripted([call("act"), "Done."], act, **hooks).run("Go."))
    (record,) = (record for record in caplog.records if record.exc_info)
    assert record.levelno == level
    assert f"the {hook} " in record.getMessage()
    if hook == "guard":
        assert "test_hook_errors.py, line" in caplog.messages[-1]
