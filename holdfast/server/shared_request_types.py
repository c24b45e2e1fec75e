"""Types that request bodies and queries are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias, Union

from msgspec import Meta, Struct, field

from holdfast.chat import files
from holdfast.chat.client_tools import ClientTool
from holdfast.kernel.messages import File, Part, Prompt, Source, Text
from holdfast.server.problem import BadBody
from holdfast.store.database import Tx

if TYPE_CHECKING:
    from holdfast.server.operation import ApiCall

MAX_SAFE_INTEGER: Final = 2**53 - 1
"""The largest integer that every JSON client can represent."""

Id: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
MessageNumber: TypeAlias = Annotated[
    int, Meta(ge=1, le=MAX_SAFE_INTEGER, description="number of a message")
]
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
Title: TypeAlias = Annotated[str, Meta(min_length=1, max_length=200)]
ModelName: TypeAlias = Annotated[
    str, Meta(min_length=1, max_length=200, description="provider:model")
]
ChatLabels: TypeAlias = Annotated[
    dict[
        Annotated[str, Meta(min_length=1, max_length=64)],
        Annotated[str, Meta(min_length=1, max_length=256)],
    ],
    Meta(max_length=32),
]
Limit: TypeAlias = Annotated[int, Meta(ge=1, le=200, description="most items on a page")]
CursorText: TypeAlias = Annotated[
    str,
    Meta(max_length=2000, pattern="^[A-Za-z0-9_=-]*$", description="`next` of the previous page"),
]


class RequestStruct(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A request body or query; unknown fields are refused by name."""


class ClientToolBody(RequestStruct, frozen=True):
    """A tool that the client runs itself, by answering actions."""

    name: Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_-]+$")]
    description: Annotated[str, Meta(max_length=20_000)] = ""
    schema: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    """JSON schema of the arguments."""
    timeout: Annotated[float, Meta(gt=0, le=31_536_000)] | None = None
    """Seconds that a call waits for its result; None: no limit."""


ClientTools: TypeAlias = Annotated[tuple[ClientToolBody, ...], Meta(max_length=64)]


def client_tools_of(tools: Sequence[ClientToolBody]) -> tuple[ClientTool, ...]:
    """The client tools of a request."""
    return tuple(ClientTool(one.name, one.description, one.schema, one.timeout) for one in tools)


class TaggedRequestStruct(RequestStruct, frozen=True, tag_field="type"):
    """A request value that is a member of a union, tagged by `type`."""


class TextPart(TaggedRequestStruct, frozen=True, tag="text"):
    """A text."""

    text: Annotated[str, Meta(min_length=1)]


class FilePart(TaggedRequestStruct, frozen=True, tag="file"):
    """A file: an upload, its bytes, or a URL that the model's provider can fetch."""

    file: Id | None = None
    """Id of an upload."""
    data: bytes | None = None
    """The bytes in base64, for small files."""
    url: Annotated[str, Meta(max_length=4000, pattern="^https?://")] | None = None
    media_type: Annotated[str, Meta(min_length=3, max_length=200)] | None = None
    """Media type of `data` or `url`; an upload has its own."""
    name: Annotated[str, Meta(min_length=1, max_length=255)] | None = None


class SourcePart(TaggedRequestStruct, frozen=True, tag="source"):
    """A source that the message refers to."""

    url: Annotated[str, Meta(min_length=1, max_length=4000)]
    title: Annotated[str, Meta(max_length=400)] | None = None


PromptBody: TypeAlias = Union[
    Annotated[str, Meta(min_length=1)],
    Annotated[
        tuple[Union[TextPart, FilePart, SourcePart], ...], Meta(min_length=1, max_length=100)
    ],
]
"""A message of a user: text, or parts."""


async def prompt_of(call: ApiCall, prompt: PromptBody) -> Prompt:
    """A message of a user as a chat accepts it. Raises `FileNotFound` for files of others."""
    if isinstance(prompt, str):
        return prompt

    async def read(tx: Tx) -> Sequence[Part]:
        return [await _part(tx, call.user, part) for part in prompt]

    if any(isinstance(part, FilePart) and part.file is not None for part in prompt):
        return tuple(await call.server.db.read(read))
    return tuple([_plain(part) for part in prompt])


async def _part(tx: Tx, user: str, part: TextPart | FilePart | SourcePart) -> Part:
    if isinstance(part, FilePart) and part.file is not None:
        _check_one(part)
        return (await files.read_file(tx, user, part.file)).part()
    return _plain(part)


def _plain(part: TextPart | FilePart | SourcePart) -> Part:
    match part:
        case TextPart():
            return Text(part.text)
        case SourcePart():
            return Source(part.url, part.title)
        case FilePart():
            _check_one(part)
            if part.media_type is None:
                raise BadBody("a file given by its data or url needs its media_type")
            return File(part.media_type, part.name, part.data, part.url)


def _check_one(part: FilePart) -> None:
    if sum(one is not None for one in (part.file, part.data, part.url)) != 1:
        raise BadBody("a file is given by one of file (an upload), data and url")
