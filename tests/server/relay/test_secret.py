"""Two replicas prove to each other that they share a secret, and never send it."""

from __future__ import annotations

import pytest

from holdfast.server.relay.secret import SKEW, Secret

OURS = Secret(b"the secret of all replicas")
OTHER = Secret(b"the secret of somebody else")
NOW = 1_000_000


def test_who_has_the_same_secret_is_believed_on_both_sides() -> None:
    proof = OURS.asking("w1", NOW)
    answer = OURS.answer(proof.shown, "w1", NOW)
    assert proof.is_answered(answer)
    assert OURS.key.decode() not in proof.shown


def test_who_is_asked_and_does_not_have_it_is_not_believed() -> None:
    proof = OURS.asking("w1", NOW)
    for answer in (None, "", proof.shown, proof.shown.split()[-1], b"", "é"):
        assert not proof.is_answered(answer)
    assert not proof.is_answered(OURS.asking("w1", NOW).expected), "that of another connection"


@pytest.mark.parametrize(
    ("secret", "worker", "now"),
    [(OTHER, "w1", NOW), (OURS, "w2", NOW), (OURS, "w1", NOW + SKEW + 1)],
)
def test_a_proof_of_another_secret_worker_or_time_is_none(
    secret: Secret, worker: str, now: int
) -> None:
    assert secret.answer(OURS.asking("w1", NOW).shown, worker, now) is None


def test_clocks_may_differ_a_little() -> None:
    shown = OURS.asking("w1", NOW).shown
    assert OURS.answer(shown, "w1", NOW + SKEW) is not None
    assert OURS.answer(shown, "w1", NOW - SKEW) is not None
