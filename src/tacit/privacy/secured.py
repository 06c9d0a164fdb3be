"""What secure aggregation adds to a certificate: who can still see one party's numbers, and what is assumed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tacit.privacy.aggregation import explain_collusion
from tacit.privacy.certificate import Certificate

HIDDEN = (
    "each party's own numbers in training: they travel under masks that cancel in the sum over all parties, so that "
    "only the sums can be read (this is not differential privacy)"
)
SUMS = "the sums over the parties, in every round: masks hide whose numbers they are, not what the sums tell"
BROADCASTS = (
    "what the broadcasts give away: they are made from the sums, so every party may learn what the coordinator learns"
)
ASSUMED = (
    "masks: at least two parties follow the protocol and do not pool what they know; the coordinator need not, "
    "as what it sends to each party is bound into the masks",
    "masks: the public keys that the coordinator passes on are genuine (the parties have confirmed each other's keys, "
    "or people compared the fingerprints of the run's masks)",
    "masks: each party runs where only it can look; the person who runs several in one process sees what they hold",
    "masks: X25519, HKDF-SHA256 and ChaCha20 are secure",
)
UNDER_MASKS = "under masks: only the sum over all parties can be read"


def secured(certificate: Certificate, parties: Sequence[str]) -> Certificate:
    """The certificate of the same run with every party's answers under masks.

    No claim changes: masks add no noise and take none away. Where a mechanism counts the noise of several parties
    together, because masks hide all but the sum, its own claims say so and from whom.

    Parameters
    ----------
    certificate : Certificate
        Of the run without masks.
    parties : sequence of str
        Everybody who answers; one of them belongs to the coordinator, who holds the labels.
    """
    return replace(
        certificate,
        covers=(*certificate.covers, HIDDEN, explain_collusion(parties, coordinator_is_party=True)),
        does_not_cover=(*certificate.does_not_cover, SUMS, BROADCASTS),
        per_party={name: f"{what} ({UNDER_MASKS})" for name, what in certificate.per_party.items()},
        assumptions=(*certificate.assumptions, *ASSUMED),
    )
