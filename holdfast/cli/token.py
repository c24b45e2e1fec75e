"""Implements `holdfast token`: creates, lists and revokes access tokens."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from holdfast.cli.account_backends import Accounts, DatabaseAccounts, ServerAccounts, TokenRequest
from holdfast.cli.exit_codes import ExitCode
from holdfast.cli.run_texts import columns
from holdfast.cli.target import (
    ask_instead,
    asking,
    database_of,
    own_database,
    reading,
    refuse_missing,
    running_server,
    say_which,
    server_of,
    writing,
)
from holdfast.cli.trust_prompt import ensure_trusted
from holdfast.config import ChatTarget, TokenOptions
from holdfast.kernel.errors import ConfigError
from holdfast.kernel.escape import escape
from holdfast.kernel.ports import Ports, wall_clock

if TYPE_CHECKING:
    from holdfast.server.identity.api_tokens import Token


def main(options: TokenOptions) -> int:
    ensure_trusted(options.where)
    asyncio.run(_do(options))
    return ExitCode.FINISHED


async def _do(options: TokenOptions) -> None:
    async with _accounts(options.where, options.what) as accounts:
        match options.what:
            case "create":
                await _create(accounts, options)
            case "list":
                user = await _user(accounts, options)
                for line in table(await accounts.tokens(user), wall_clock()):
                    print(escape(line))
            case "revoke":
                assert options.id is not None
                await accounts.revoke(options.id)
                print(f"revoked {options.id}", file=sys.stderr)


@asynccontextmanager
async def _accounts(
    where: ChatTarget, what: Literal["create", "list", "revoke"]
) -> AsyncIterator[Accounts]:
    server = None if where.url is None else server_of(where)
    database = "" if server else database_of(where, makes=what == "create")
    if where.database is None and database == own_database(where.data):
        server = running_server(where)  # which has this file open
    if server is not None:
        say_which(where, server.url)
        async with asking(server) as line:
            yield ServerAccounts(line)
        return
    if what != "create":
        refuse_missing(database, where.data, "--url, --database or --config")
    opened = reading(database) if what == "list" else writing(database, ask_instead(where))
    async with opened as db:
        yield DatabaseAccounts(db, Ports())


async def _create(accounts: Accounts, options: TokenOptions) -> None:
    """Create a token. It alone goes to standard output, so a script can read it."""
    user = await _user(accounts, options)
    issued = await accounts.issue(user, TokenRequest(options.name, options.scopes, options.days))
    whose = f" for {options.user}" if options.user else ""
    what = f"{', '.join(issued.token.scopes)} until {_day(issued.token.expires_at)}"
    print(f"token {issued.token.id}{escape(whose)}: {what}; shown only once", file=sys.stderr)
    print(issued.secret)


async def _user(accounts: Accounts, options: TokenOptions) -> str | None:
    """The id of the named user, created if --role was given."""
    if options.user is None:
        return None
    found = await accounts.find(" ".join(options.user.split()))
    if found is None and options.role is not None and options.what == "create":
        found = await accounts.add(options.user, options.role)
        print(f"created user {escape(found.name)} ({found.role})", file=sys.stderr)
    if found is None:
        raise ConfigError(f"unknown user {options.user!r}: add --role member to create it")
    if options.role not in (None, found.role):
        raise ConfigError(
            f"{options.user!r} already has the role {found.role}: remove --role, "
            "or change the role at the server (PATCH /users)"
        )
    return found.id


# --- what is shown -------------------------------------------------------------------------------


def table(tokens: Sequence[Token], now: int) -> Iterator[str]:
    """A header, and a line for each token."""
    rows = [("ID", "STATE", "LAST USED", "SCOPES", "NAME")]
    for one in tokens:
        used = _day(one.used_at) if one.used_at else "never"
        rows.append((one.id, state(one, now), used, ",".join(one.scopes), one.name))
    return columns(rows)


def state(token: Token, now: int) -> str:
    if token.revoked_at is not None:
        return f"revoked {_day(token.revoked_at)}"
    if token.expires_at is None:
        return "good"
    return f"{'valid until' if token.expires_at > now else 'expired'} {_day(token.expires_at)}"


def _day(at: int | None) -> str:
    return "forever" if at is None else datetime.fromtimestamp(at / 1e6, UTC).date().isoformat()
