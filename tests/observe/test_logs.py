"""Logs are lines, for people or for programs, that say what they are about and tell no secret."""

from __future__ import annotations

import io
import json
import logging
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import anyio
import anyio.to_thread
import pytest

from holdfast.observe.logs import LOG_CONTEXT, JsonLogFormatter, LogFormat, LogLevel, set_up_logs
from holdfast.observe.redact import Redactor

LOG = logging.getLogger("holdfast.worker")
SECRET = "sk-very-secret"


class Somewhere:
    attempt = 1

    @property
    def log_fields(self) -> Mapping[str, object]:
        return {"chat": "c1", "worker": "w1", "epoch": 3, "attempt": self.attempt}


@contextmanager
def logged(form: LogFormat, level: LogLevel = "info") -> Iterator[io.StringIO]:
    redact, out = Redactor(), io.StringIO()
    redact.know(SECRET)
    take_back = set_up_logs(form, level, redact, out)
    try:
        yield out
    finally:
        take_back()


def test_a_line_of_json_has_everything_that_a_search_needs() -> None:
    with logged("json") as out:
        LOG.warning("chat %s: %s", "c1", "ünwell\nreally")
    (line,) = out.getvalue().splitlines()
    said = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", said.pop("time"))
    assert said == {
        "level": "warning",
        "logger": "holdfast.worker",
        "message": "chat c1: ünwell\nreally",
    }


def test_a_traceback_is_a_field_and_not_more_lines() -> None:
    with logged("json") as out:
        try:
            raise ValueError(f"the key {SECRET} is wrong")
        except ValueError:
            LOG.exception("failed")
    (line,) = out.getvalue().splitlines()
    error = json.loads(line)["error"]
    assert error.startswith("Traceback")
    assert error.endswith("ValueError: the key [hidden] is wrong")


async def test_a_record_says_what_its_task_is_about_also_from_tasks_and_threads_below() -> None:
    somewhere = Somewhere()

    async def below() -> None:
        somewhere.attempt = 2
        LOG.info("in a task")
        await anyio.to_thread.run_sync(LOG.info, "in a thread")

    async def drive() -> None:
        LOG_CONTEXT.set(somewhere)
        LOG.info("here")
        async with anyio.create_task_group() as group:
            group.start_soon(below)

    with logged("json") as out:
        async with anyio.create_task_group() as group:
            group.start_soon(drive)
        LOG.info("outside")
    told = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [(one["message"], one.get("chat"), one.get("attempt")) for one in told] == [
        ("here", "c1", 1),
        ("in a task", "c1", 2),
        ("in a thread", "c1", 2),
        ("outside", None, None),
    ]


async def test_a_line_for_people_ends_with_its_place() -> None:
    async def drive() -> None:
        LOG_CONTEXT.set(Somewhere())
        LOG.warning("trying again with %s", SECRET)

    with logged("text") as out:
        async with anyio.create_task_group() as group:
            group.start_soon(drive)
    assert re.fullmatch(
        r"\d\d:\d\d:\d\d warning holdfast\.worker: trying again with \[hidden\] "
        r"\(chat c1, worker w1, epoch 3, attempt 1\)\n",
        out.getvalue(),
    )


def test_what_is_below_the_level_is_left_out_and_what_libraries_warn_of_is_not() -> None:
    with logged("text", "warning") as out:
        LOG.info("ours, quiet")
        LOG.warning("ours, loud")
        logging.getLogger("aiohttp.server").warning("theirs, loud")
        logging.getLogger("aiohttp.server").info("theirs, quiet")
    assert re.findall(r"(\w+), (\w+)", out.getvalue()) == [("ours", "loud"), ("theirs", "loud")]


def test_an_argument_that_cannot_be_written_as_json_is_no_trouble() -> None:
    class Odd:
        @property
        def log_fields(self) -> Mapping[str, object]:
            return {"chat": object()}

    token = LOG_CONTEXT.set(Odd())
    try:
        with logged("json") as out:
            LOG.warning("odd")
    finally:
        LOG_CONTEXT.reset(token)
    assert "object object" in json.loads(out.getvalue())["chat"]


def test_half_of_a_character_is_no_trouble() -> None:
    try:
        raise ValueError("also \ud801 here")
    except ValueError as error:
        raised = (type(error), error, error.__traceback__)
    record = logging.LogRecord("holdfast", logging.ERROR, "", 0, "it said \ud800", (), raised)
    said = json.loads(JsonLogFormatter(Redactor()).format(record))
    assert said["message"] == "it said \\ud800"
    assert "also \\ud801 here" in said["error"]


def test_a_message_cannot_forge_a_line_nor_give_orders_to_a_terminal() -> None:
    with logged("text") as out:
        LOG.warning("failed: %s", "gone\n10:42:07 info holdfast: all is well\x1b[2J\u202e")
    (line,) = out.getvalue().splitlines()
    assert line.endswith(r"failed: gone\n10:42:07 info holdfast: all is well\x1b[2J\u202e")


def test_the_lines_of_a_traceback_are_indented_and_harmless() -> None:
    with logged("text") as out:
        try:
            raise ValueError("gone\n10:42:07 info holdfast: all is well\x1b[2J")
        except ValueError:
            LOG.exception("failed")
    first, *rest = out.getvalue().splitlines()
    assert first.endswith("error holdfast.worker: failed")
    assert rest[0] == "  Traceback (most recent call last):"
    assert rest[-1] == r"  10:42:07 info holdfast: all is well\x1b[2J"
    assert all(line.startswith("  ") for line in rest)


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_secret_is_not_in_the_traceback_of_a_log(form: LogFormat) -> None:
    token = "hf_" + "x" * 43
    with logged(form) as out:
        try:
            try:
                raise ValueError(f"cause {SECRET}")
            except ValueError as cause:
                error = KeyError(f"refused: {token}")
                error.add_note(f"sent Authorization: Bearer {SECRET}")
                raise error from cause
        except KeyError:
            LOG.exception("failed")
    text = out.getvalue()
    assert "Traceback (most recent call last)" in text
    for part in ("cause ", "refused: ", "sent "):
        assert part in text, "the rest of the traceback is there"
    assert SECRET not in text
    assert token not in text
    assert text.count("[hidden]") >= 3
