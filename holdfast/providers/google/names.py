"""Facts derived from a model's name, where its profile has none. Pure.

Preview releases and older models are in no list of profiles, and take less than today's models do.
"""

from __future__ import annotations

import re
from typing import Any, Final

from msgspec.structs import replace

from holdfast.providers.profile import Profile

_OLDER: Final = re.compile(r"(?:^|/)gemini-[12]\b")
"""Before Gemini 3. The folder of a model may stand before its name."""
_NEVER_THINKS: Final = re.compile(r"gemini-(?:1|2[.-]0|2[.-]5-.*(?:image|tts))\b")


def with_defaults(profile: Profile, model: str) -> Profile:
    """The profile with what the name of the model says. What the profile says itself stays."""
    name = model.lower()
    if not _OLDER.search(name):
        return profile
    options: dict[str, Any] = {"thinking": "budget", "mix_tools": False, "mix_output": False}
    if "-flash-lite" in name:
        options["thinks"] = False
    if "-flash" not in name:  # those alone can stop thinking
        options["min_budget"] = 128
    efforts = profile.efforts
    if efforts is None and _NEVER_THINKS.search(name):
        efforts = ()
    return replace(profile, efforts=efforts, options={**options, **profile.options})
