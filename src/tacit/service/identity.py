"""Who a party is: a lasting Ed25519 key that vouches for the keys it draws for each session.

The keys of a session pass through whoever asks, who could put its own in their place and read every score. So each
comes with a signature, and a party checks it against the identities that it was given beforehand, over another channel.
"""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from tacit.errors import InputError
from tacit.files import read_toml_file, show_path, write_atomically
from tacit.privacy.randomness import pack
from tacit.text import one_line, show

PEERS = "peers"


class Identity:
    """A party's lasting Ed25519 key pair, with which it signs the keys of its sessions."""

    def __init__(self, key: Ed25519PrivateKey | None = None) -> None:
        self.key = key if key is not None else Ed25519PrivateKey.generate()

    @property
    def text(self) -> str:
        """The public half, as it is written into the others' files."""
        return base64.b64encode(self.key.public_key().public_bytes_raw()).decode()

    def sign(self, statement: bytes) -> bytes:
        """The party's signature of a statement."""
        return self.key.sign(statement)

    def pem(self) -> bytes:
        """The private half, for its file."""
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def open_identity(path: Path) -> Identity:
    """Read an identity, or draw one where there is no file yet; only its owner can read the file."""
    if not path.exists():
        identity = Identity()
        write_atomically(path, lambda file: file.write(identity.pem()), secret=True)
        return identity
    where = show_path(path)
    try:
        if os.stat(path).st_mode & 0o077:
            raise InputError(f"others can read {where}, which holds a secret key: chmod 600 it")
        key = load_pem_private_key(path.read_bytes(), None)
    except (OSError, ValueError, TypeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{where} is no identity: {one_line(error)}; remove it to draw a new one") from error
    if not isinstance(key, Ed25519PrivateKey):
        raise InputError(f"{where} holds no Ed25519 key: remove it to draw a new one")
    return Identity(key)


def read_peers(path: Path) -> dict[str, Ed25519PublicKey]:
    """The identities of all parties that answer, from a TOML file with a table [peers]."""
    where = show_path(path)
    table = read_toml_file(path).get(PEERS)
    if not isinstance(table, dict) or not table:
        raise InputError(f'{where} has no table [{PEERS}] with a line NAME = "IDENTITY" for each party')
    return {name: _public(where, name, text) for name, text in table.items()}


def _public(where: str, name: str, text: object) -> Ed25519PublicKey:
    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(str(text), validate=True))
    except (ValueError, binascii.Error) as error:
        raise InputError(f"{where}: {show(text)} is no identity of {show(name)}: take what it prints") from error


def same(key: Ed25519PublicKey, identity: Identity) -> bool:
    """Whether this is the identity's public half."""
    return base64.b64encode(key.public_bytes_raw()).decode() == identity.text


def statement(session: str, party: str, roster: Sequence[str], key: bytes) -> bytes:
    """What a party signs: its key is for this session with these parties, and for nothing else."""
    return pack("tacit answer", session, party, len(roster), *roster, key)


def vouched(
    peers: Mapping[str, Ed25519PublicKey], session: str, party: str, roster: Sequence[str], key: bytes, signature: bytes
) -> bool:
    """Whether the party itself signed this key for this session."""
    try:
        peers[party].verify(signature, statement(session, party, roster, key))
    except InvalidSignature:
        return False
    return True
