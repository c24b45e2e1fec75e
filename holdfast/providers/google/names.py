"""Profile options derived from a model's name, where its profile has none. Pure.

Preview releases and older models are not in the profiles, and support less than current models.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec.structs import replace

from holdfast.providers.profile import Profile

_OLDER: Final = re.compile(r"(?:^|/)gemini-[12]\b")
"""Names of models before Gemini 3, optionally with a collection before the name."""
_NEVER_THINKS: Final = re.compile(r"gemini-(?:1|2[.-]0|2[.-]5-.*(?:image|tts))\b")


def with_defaults(profile: Profile, model: str) -> Profile:
    """The profile, completed with options that follow from the model's name."""
    name = model.lower()
    if not _OLDER.search(name):
        return profile
    options: dict[str, Any] = {"thinking": "budget", "mix_tools": False, "mix_output": False}
    if "-flash-lite" in name:
        options["thinks"] = False
    if "-flash" not in name:  # only flash models can stop thinking
        options["min_budget"] = 128
    efforts = profile.efforts
    if efforts is None and _NEVER_THINKS.search(name):
        efforts = ()
    return replace(profile, efforts=efforts, options={**options, **profile.options})
