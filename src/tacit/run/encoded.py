"""The certificate of a run whose columns were encoded: what the encoding's constants reveal, and what is assumed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tacit.columns.constants import Encoding
from tacit.columns.words import constants
from tacit.privacy.certificate import Certificate


def with_encoding(certificate: Certificate, encodings: Mapping[str, Encoding], *, shared: bool) -> Certificate:
    """The certificate with what is true of the encoding (docs/proofs/encode.md).

    Parameters
    ----------
    certificate : Certificate
        What holds for the encoded rows.
    encodings : mapping of str to Encoding
        By party.
    shared : bool
        Whether all parties have the same constants, as where the rows are split.
    """
    uncovered, assumed = constants(encodings, shared=shared)
    return replace(
        certificate,
        does_not_cover=(*certificate.does_not_cover, *uncovered),
        assumptions=(*certificate.assumptions, *assumed),
    )
