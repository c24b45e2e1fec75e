"""Finds the operation of a request by its method and its path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from holdfast.server.dispatch import UNPREFIXED_PATHS, methods_of
from holdfast.server.operation import Operation
from holdfast.server.problem import NotFound, RequestRefused
from holdfast.server.wire_format import API_PREFIX


class NoSuchPath(NotFound):
    """No operation has this path."""

    kind = "no_such_path"


class MethodNotAllowed(RequestRefused):
    """The operations of this path have other methods."""

    kind = "method_not_allowed"
    status = 405


class NotAStream(NotFound):
    """A WebSocket was asked for where there are no events."""

    kind = "no_such_path"


class Route(NamedTuple):
    """A path, and its operations by method."""

    segments: Sequence[str]
    operations: dict[str, Operation]

    def match(self, segments: Sequence[str]) -> Mapping[str, str] | None:
        """The parameters in a path; None if the path is another."""
        names = {}
        for own, given in zip(self.segments, segments, strict=True):
            if own.startswith("{"):
                if not given:
                    return None
                names[own[1:-1]] = given
            elif own != given:
                return None
        return names


class Router:
    """The routes of some operations."""

    def __init__(self, operations: Iterable[Operation]) -> None:
        routes: dict[str, Route] = {}
        for operation in operations:
            for path in _paths_of(operation):
                route = routes.setdefault(path, Route(path.split("/")[1:], {}))
                route.operations.update(dict.fromkeys(methods_of(operation), operation))
        self._by_length: dict[int, list[Route]] = {}
        for route in routes.values():
            self._by_length.setdefault(len(route.segments), []).append(route)

    def find(
        self, method: str, path: str, segments: Sequence[str], root: str
    ) -> tuple[Operation, Mapping[str, str]]:
        """The operation, and the parameters in the path. Raises `RequestRefused`."""
        allowed: set[str] = set()
        for route in self._by_length.get(len(segments), ()):
            names = route.match(segments)
            if names is None:
                continue
            if operation := route.operations.get(method):
                return operation, names
            allowed.update(route.operations)
        if not allowed:
            raise NoSuchPath(f"there is no {path}: {root}{API_PREFIX}/openapi.json lists all paths")
        use = ", ".join(sorted(allowed))
        refused = MethodNotAllowed(f"{path} does not accept {method}: use {use}")
        refused.headers = {"Allow": ",".join(sorted(allowed))}
        raise refused


def _paths_of(operation: Operation) -> Iterator[str]:
    yield API_PREFIX + operation.path
    if operation.path in UNPREFIXED_PATHS:
        yield operation.path
