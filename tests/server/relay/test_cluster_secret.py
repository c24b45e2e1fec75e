"""Two replicas prove to each other that they share a secret, and never send it."""

from __future__ import annotations

import pytest

from holdfast.server.relay.cluster_secret import MAX_CLOCK_SKEW, ClusterSecret

OURS = ClusterSecret(b"the secret of all replicas")
OTHER = ClusterSecret(b"the secret of somebody else")
NOW = 1_000_000


def test_who_has_the_same_secret_is_believed_on_both_sides() -> None:
    proof = OURS.subscriber_proof("w1", NOW)
    answer = OURS.publisher_proof(proof.sent, "w1", NOW)
    assert proof.is_confirmed_by(answer)
    assert OURS.key.decode() not in proof.sent


def test_who_is_asked_and_does_not_have_it_is_not_believed() -> None:
    proof = OURS.subscriber_proof("w1", NOW)
    for answer in (None, "", proof.sent, proof.sent.split()[-1], b"", "é"):
        assert not proof.is_confirmed_by(answer)
    assert not proof.is_confirmed_by(OURS.subscriber_proof("w1", NOW).expected), (
        "that of another connection"
    )


@pytest.mark.parametrize(
    ("secret", "worker", "now"),
    [(OTHER, "w1", NOW), (OURS, "w2", NOW), (OURS, "w1", NOW + MAX_CLOCK_SKEW + 1)],
)
def test_a_proof_of_another_secret_worker_or_time_is_none(
    secret: ClusterSecret, worker: str, now: int
) -> None:
    assert secret.publisher_proof(OURS.subscriber_proof("w1", NOW).sent, worker, now) is None


def test_clocks_may_differ_a_little() -> None:
    shown = OURS.subscriber_proof("w1", NOW).sent
    assert OURS.publisher_proof(shown, "w1", NOW + MAX_CLOCK_SKEW) is not None
    assert OURS.publisher_proof(shown, "w1", NOW - MAX_CLOCK_SKEW) is not None
