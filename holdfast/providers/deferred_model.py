"""A model whose key or address is missing when it is made, as in a module that a test imports."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Final

from holdfast.kernel.errors import NotConfigured
from holdfast.kernel.model import Delta, Effort, Model, Request, is_priced, known_efforts
from holdfast.providers.profile import UNKNOWN, Profile

NO_KEY: Final = "missing"
NO_ADDRESS: Final = "http://missing.invalid"


class UnkeyedModel:
    """A model that reads its key and its address again when it is first used.

    `make` creates the model; it raises `NotConfigured` while something is missing.
    """

    def __init__(self, make: Callable[..., Model]) -> None:
        self._make = make
        self._model: Model | None = None
        self._facts = _without_key(make)
        """The same model with an invalid key. It is never called."""

    def __repr__(self) -> str:
        return f"UnkeyedModel({self.name!r})"

    @property
    def name(self) -> str:
        return self._facts.name

    @property
    def window(self) -> int | None:
        return (self._model or self._facts).window

    @property
    def efforts(self) -> tuple[Effort, ...] | None:
        return known_efforts(self._facts)

    @property
    def priced(self) -> bool:
        return is_priced(self._facts)

    @property
    def profile(self) -> Profile:
        profile: Profile = getattr(self._facts, "profile", UNKNOWN)
        return profile

    def check_usable(self) -> None:
        """Raise `NotConfigured` while a key or an address is missing."""
        if self._model is None:
            self._model = self._make()

    def stream(self, request: Request) -> AsyncIterator[Delta]:
        self.check_usable()
        assert self._model is not None
        return self._model.stream(request)


def _without_key(make: Callable[..., Model]) -> Model:
    try:
        return make(api_key=NO_KEY)
    except NotConfigured:
        return make(api_key=NO_KEY, base_url=NO_ADDRESS)
