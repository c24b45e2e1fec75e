"""The callers of a mounted application: users that the application itself knows."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final, TypeAlias, Union

from msgspec import Struct, structs

from holdfast.chat.rows import can_hold
from holdfast.kernel.awaiting import awaited
from holdfast.kernel.errors import ConfigError
from holdfast.server.access_policy import ApiCaller, ChatAccess, Role
from holdfast.server.asgi.asgi_request import AsgiRequest
from holdfast.server.http_request import HttpRequest
from holdfast.server.identity.chat_access import ChatAccesses
from holdfast.server.problem import Unauthenticated
from holdfast.store.database import Database

REFUSALS: Final = (401, 403)
"""Status codes of errors that frameworks raise for a request that they do not let in."""
ROLES: Final[tuple[Role, ...]] = ("admin", "member", "viewer")


class AsgiUser(Struct, frozen=True):
    """A user of the application, as `identify` returns it."""

    id: str
    """Id of the user: the owner of their chats."""
    role: Role = "member"
    """`viewer` may only read; `admin` may also read the audit log and metrics."""
    name: str = ""
    """Name of the user, for `GET /me`."""

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id or not can_hold(self.id):
            raise ConfigError(
                f"the id of a user is {self.id!r:.80}: use text that is not empty, as str(user.id)"
            )
        if self.role not in ROLES:
            raise ConfigError(f"the role of a user is {self.role!r}: use one of {', '.join(ROLES)}")


Identified: TypeAlias = Union[AsgiUser, str, None]
"""A user, or the id of one; None for a request without a user."""
Identify: TypeAlias = Callable[[AsgiRequest], Union[Identified, Awaitable[Identified]]]
"""Finds the user who sends a request."""


class NotSignedIn(Unauthenticated):
    """The application knows no user for the request."""

    headers: ClassVar[Mapping[str, str]] = {}  # type: ignore[misc]


class ApplicationError(Exception):
    """A function of the application raised: the application answers its own errors."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


class AppIdentity:
    """Identifies callers by a function of the application; implements `Identity`."""

    def __init__(self, db: Database, identify: Identify) -> None:
        self._identify = identify
        self._accesses = ChatAccesses(db)
        self._numbers = itertools.count(1)
        self._watched: dict[str, AsgiRequest] = {}
        """Requests whose streams are open, by the token of their caller."""

    async def caller(self, request: HttpRequest) -> ApiCaller | None:
        """The caller that the application names. Raises `NotSignedIn`, `ApplicationError`."""
        assert isinstance(request, AsgiRequest)
        user = await self._user(request)
        if user is None:
            raise NotSignedIn("the application knows no user for this request: sign in first")
        return ApiCaller(user.id, user.role, name=user.name)

    async def access(self, caller: ApiCaller, chat_id: str) -> ChatAccess | None:
        """The chat, if the caller owns it; None otherwise."""
        return await self._accesses.access(caller, chat_id)

    @contextmanager
    def watched(self, caller: ApiCaller, request: AsgiRequest) -> Iterator[ApiCaller]:
        """Check the request again while its stream is open, which this block keeps open."""
        token = f"stream {next(self._numbers)}"
        self._watched[token] = request
        try:
            yield structs.replace(caller, token=token)
        finally:
            del self._watched[token]

    async def still(self, caller: ApiCaller, chat_id: str | None = None) -> bool:
        """Whether the request of an open stream would still be let in."""
        request = self._watched.get(caller.token or "")
        if request is None:
            return True  # its stream has ended meanwhile
        try:
            user = await self._user(request)
        except ApplicationError as raised:
            if getattr(raised.error, "status_code", None) in REFUSALS:
                return False
            raise
        if user is None or user.id != caller.user:
            return False
        return chat_id is None or await self.access(caller, chat_id) is not None

    async def _user(self, request: AsgiRequest) -> AsgiUser | None:
        try:
            found: Any = await awaited(self._identify(request))
            return found if found is None or isinstance(found, AsgiUser) else AsgiUser(found)
        except Exception as error:
            raise ApplicationError(error) from error
