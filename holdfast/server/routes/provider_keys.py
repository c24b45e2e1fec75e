"""Keys of providers: stored encrypted, and never returned."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from holdfast.providers.provider_catalog import PROVIDERS
from holdfast.server.idempotency import once
from holdfast.server.identity.audit import entry, record
from holdfast.server.identity.encrypted_secrets import (
    PROVIDER_KIND,
    encrypt,
    remove_secret,
    store_secret,
)
from holdfast.server.operation import ApiCall, operation
from holdfast.server.problem import BadBody, NotFound
from holdfast.store.database import Tx


class ProviderNotFound(NotFound):
    """There is no such provider, or no key is stored for it."""

    kind = "provider_not_found"


class ProviderKey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The key of a provider to store."""

    key: Annotated[str, Meta(min_length=1, max_length=8192)]

    def __repr__(self) -> str:
        return "<key of a provider>"


@operation("PUT", "/providers/{name}", "Store the key of a provider")
async def put_provider(call: ApiCall, name: str, body: ProviderKey) -> None:
    """Replaces a stored key. It is encrypted, and never returned."""
    _check(name)
    if not (body.key.isascii() and body.key.isprintable() and body.key == body.key.strip()):
        raise BadBody("the key has white space or characters that no key has: copy it again")
    sealed = encrypt(call.server.access.keyring, PROVIDER_KIND, name, body.key)

    async def change(tx: Tx) -> None:
        await store_secret(tx, sealed)
        await record(
            tx, entry(call, "secret.store", f"{PROVIDER_KIND}/{name}", key_id=sealed.key_id)
        )

    # Requests are stored by hash: no provider key is stored with them.
    await once(call, f"PUT /providers/{name}", body.key, type(None), change)


@operation("DELETE", "/providers/{name}", "Delete the stored key of a provider")
async def delete_provider(call: ApiCall, name: str) -> None:
    _check(name)

    async def change(tx: Tx) -> None:
        if not await remove_secret(tx, PROVIDER_KIND, name):
            raise ProviderNotFound(f"no key is stored for {name!r}", name=name)
        await record(tx, entry(call, "secret.remove", f"{PROVIDER_KIND}/{name}"))

    await once(call, f"DELETE /providers/{name}", None, type(None), change)


def _check(name: str) -> None:
    if name not in PROVIDERS:
        names = ", ".join(sorted(PROVIDERS))
        raise ProviderNotFound(f"there is no provider {name!r}: use one of {names}", name=name)
