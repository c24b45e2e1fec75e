"""The secret that the replicas of a cluster share, and how each proves that it has it.

The secret itself is never sent: the address of a peer comes from the database and may be out of
date. Each side sends a proof that is valid for one connection to one worker.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from secrets import token_hex
from typing import Final, Literal

from msgspec import Struct

from holdfast.kernel.errors import ConfigError
from holdfast.server.identity.private_file import read_private

CLUSTER_SECRET_VARIABLE: Final = "HOLDFAST_CLUSTER_SECRET"
MIN_SECRET_LENGTH: Final = 16
"""Fewest characters of a secret."""
MAX_CLOCK_SKEW: Final = 300
"""Seconds that the clocks of two replicas may differ by."""
PROOF_HEADER: Final = "Holdfast-Relay"
"""Request header of a subscriber: time, nonce and proof. The publisher's proof is its first
message."""


class ClusterSecret(Struct, frozen=True):
    """The cluster's secret."""

    key: bytes

    def __repr__(self) -> str:
        return "<cluster secret>"

    def _proof(self, side: Literal["asking", "asked"], worker: str, time: str, nonce: str) -> str:
        words = "\n".join((side, worker, time, nonce)).encode(errors="replace")
        return hmac.new(self.key, words, sha256).hexdigest()

    def subscriber_proof(self, worker: str, now: int) -> Proof:
        """The proof of a subscriber for a worker. `now`: seconds since 1970."""
        time, nonce = str(now), token_hex(16)
        proof = self._proof("asking", worker, time, nonce)
        return Proof(f"{time} {nonce} {proof}", self._proof("asked", worker, time, nonce))

    def publisher_proof(self, sent: str, worker: str, now: int) -> str | None:
        """The publisher's proof; None if the subscriber's is invalid or too old."""
        pieces = sent.split(" ")
        if len(pieces) != 3 or not pieces[0].isdecimal() or len(pieces[0]) > 18:
            return None
        time, nonce, proof = pieces
        expected = self._proof("asking", worker, time, nonce)
        if not hmac.compare_digest(expected.encode(), proof.encode(errors="replace")):
            return None
        if abs(now - int(time)) > MAX_CLOCK_SKEW:
            return None
        return self._proof("asked", worker, time, nonce)


class Proof(Struct, frozen=True):
    """A subscriber's proof, and the publisher's that it expects."""

    sent: str
    """Value of the request header."""
    expected: str
    """Proof that the publisher sends if it has the secret too."""

    def is_confirmed_by(self, answer: object) -> bool:
        """Whether this is the expected proof."""
        return isinstance(answer, str) and hmac.compare_digest(
            self.expected.encode(), answer.encode(errors="replace")
        )


def find_secret(environ: Mapping[str, str], file: Path | None) -> ClusterSecret | None:
    """The secret of the environment, or else of a private file; None if there is none."""
    where, text = CLUSTER_SECRET_VARIABLE, environ.get(CLUSTER_SECRET_VARIABLE)
    if text is None and file is not None:
        where, text = str(file), read_private(file)
    if text is None:
        return None
    return check_secret(where, text)


def check_secret(where: str, text: str) -> ClusterSecret:
    """The secret of a text. Raises `ConfigError` for one that is too short."""
    if len(text.strip()) < MIN_SECRET_LENGTH:
        raise ConfigError(
            f"{where} has a secret of fewer than {MIN_SECRET_LENGTH} characters: make one with "
            "`openssl rand -base64 32`, the same for all replicas"
        )
    return ClusterSecret(text.strip().encode())
