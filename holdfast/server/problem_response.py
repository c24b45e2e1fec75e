"""The HTTP response of a problem."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiohttp import web

from holdfast.server.operation import EncodedResponse
from holdfast.server.problem import PROBLEM_MEDIA_TYPE, ProblemDetails
from holdfast.server.wire_format import to_json

_PASSED_HEADERS: Final = frozenset(("allow", "www-authenticate", "retry-after"))


def encoded_problem(problem: ProblemDetails, headers: Mapping[str, str] = {}) -> EncodedResponse:
    """A problem as a response, with the headers that clients act on."""
    more = {name: value for name, value in headers.items() if name.lower() in _PASSED_HEADERS}
    return EncodedResponse(
        problem.status, to_json(problem), {"Content-Type": PROBLEM_MEDIA_TYPE, **more}
    )


def problem_response(problem: ProblemDetails, headers: Mapping[str, str] = {}) -> web.Response:
    """A problem as a response of aiohttp."""
    response = encoded_problem(problem, headers)
    return web.Response(status=response.status, body=response.body, headers=response.headers)
