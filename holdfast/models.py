"""Models: the protocols of the providers, model profiles, and what a model of your own needs."""

from __future__ import annotations

from holdfast.kernel.fallback import (
    Fallback as Fallback,
)
from holdfast.kernel.model import (
    Block as Block,
    Model as Model,
    ProviderTool as ProviderTool,
    Request as Request,
    Settings as Settings,
    Shape as Shape,
    ToolSpec as ToolSpec,
)
from holdfast.providers.anthropic import (
    Anthropic as Anthropic,
)
from holdfast.providers.google import (
    Google as Google,
)
from holdfast.providers.openai_chat import (
    OpenAIChat as OpenAIChat,
)
from holdfast.providers.openai_responses import (
    OpenAIResponses as OpenAIResponses,
)
from holdfast.providers.profile import (
    Price as Price,
    Profile as Profile,
)
from holdfast.providers.model_factory import (
    unusable_providers as unusable_providers,
    usable_providers as usable_providers,
)
