"""Models: the protocols of the providers, model profiles, and what a model of your own needs.

A name of `models.pyi` is imported when it is first used, because the HTTP client of the providers
takes longer to import than everything else here.
"""

from __future__ import annotations

from holdfast.public_names import homes_of_names, import_name


def __getattr__(name: str) -> object:
    return import_name("holdfast.models", "models.pyi", name)


def __dir__() -> list[str]:
    return sorted(homes_of_names("models.pyi"))
