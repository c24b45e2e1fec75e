# The names of `holdfast.models`. Type checkers read this file, and so does `models.py`, to import
# each name on first use: a name is added here and nowhere else.

from holdfast.kernel.fallback import (
    Fallback as Fallback,
)
from holdfast.kernel.instructions import (
    DynamicBlock as DynamicBlock,
)
from holdfast.kernel.model import (
    Block as Block,
)
from holdfast.kernel.model import (
    Model as Model,
)
from holdfast.kernel.model import (
    ProviderTool as ProviderTool,
)
from holdfast.kernel.model import (
    Request as Request,
)
from holdfast.kernel.model import (
    Settings as Settings,
)
from holdfast.kernel.model import (
    Shape as Shape,
)
from holdfast.kernel.model import (
    ToolSpec as ToolSpec,
)
from holdfast.providers.anthropic import (
    Anthropic as Anthropic,
)
from holdfast.providers.google import (
    Google as Google,
)
from holdfast.providers.model_factory import (
    unusable_providers as unusable_providers,
)
from holdfast.providers.model_factory import (
    usable_providers as usable_providers,
)
from holdfast.providers.openai_chat import (
    OpenAIChat as OpenAIChat,
)
from holdfast.providers.openai_responses import (
    OpenAIResponses as OpenAIResponses,
)
from holdfast.providers.profile import (
    Price as Price,
)
from holdfast.providers.profile import (
    Profile as Profile,
)
