"""The models of a server by name: with the options of its settings, and which chats may choose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from holdfast.cli.settings import HoldfastSettings, base_urls_of
from holdfast.config import default_model
from holdfast.kernel.errors import ConfigError

if TYPE_CHECKING:
    from holdfast.kernel.model import Model


class ServerModels:
    """Creates models from names, as the settings and the environment configure them."""

    def __init__(self, settings: HoldfastSettings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._environ = environ

    def default(self) -> Model:
        """The model of an agent that names none."""
        name, reason = default_model(self._environ, base_urls_of(self._settings))
        try:
            return self.named(name)
        except ConfigError as error:
            raise type(error)(f"{error} ({reason})") from None

    def named(self, name: str) -> Model:
        """The model of this name, with the provider options of the settings."""
        from holdfast.providers.model_factory import configured_model

        options = self._settings.providers.get(provider_of(name), {})
        return configured_model(name, environ=self._environ, **options)

    def first_of(self, names: Sequence[str]) -> Model:
        """The model of a name; of several names, a model that uses the next one if one fails."""
        from holdfast.kernel.fallback import Fallback

        models = [self.named(name) for name in names]
        return models[0] if len(models) == 1 else Fallback(models)

    def chosen(self, own: Model | str | None, name: str) -> Model:
        """The model that a chat names: the agent's `own`, or one of a configured provider.

        A local provider needs no key and has a default address: naming it would be enough to make
        the server send requests to a port of its own machine.
        """
        from holdfast.providers.model_factory import DEMO_NAME, address_variables, is_configured

        if own is not None and not isinstance(own, str) and own.name == name:
            return own
        model = self.named(name)  # raises for an unknown name or a missing key
        provider = provider_of(name)
        if provider == DEMO_NAME or provider in providers_named(self._settings, self._environ):
            return model
        if not is_configured(provider, self._environ):
            variables = " or ".join(address_variables(provider))
            raise ConfigError(
                f"{provider} is not configured on this server: set {variables}, "
                f"or base_url in [providers.{provider}] of the settings"
            )
        return model


def provider_of(model: str) -> str:
    return model.partition(":")[0].strip()


def providers_named(settings: HoldfastSettings, environ: Mapping[str, str]) -> frozenset[str]:
    """Providers named by the settings or the default model, and configured by that alone."""
    models = [name for agent in settings.agents.values() for name in agent.models]
    models += title_models(settings)
    models.append(environ.get("HOLDFAST_MODEL", ""))
    return frozenset((*settings.providers, *map(provider_of, models)))


def title_models(settings: HoldfastSettings) -> tuple[str, ...]:
    """Names of the models that write titles; empty if each chat's own does, or none."""
    titles = settings.titles
    if isinstance(titles, bool):
        return ()
    return (titles,) if isinstance(titles, str) else titles
