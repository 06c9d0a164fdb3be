"""Sites in one process: what they ask of each other goes through the bytes of the protocol, and may be disturbed.

For tests, and for `tacit audit`, which plays what sites would say to each other without a network.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tacit.federation.handlers import lead_name, make_handler, make_lead
from tacit.federation.protocol import Step, decode_reply, decode_request, encode
from tacit.federation.site import AllowAll, Ask, Authorizer, Site
from tacit.run.masking import KeySigner


@dataclass(frozen=True)
class Carried:
    """One request that was carried, and its reply, both as bytes."""

    caller: str
    name: str
    request: bytes
    reply: bytes

    @property
    def asked(self) -> Step:
        """The request that was carried, decoded."""
        return decode_request(self.request)

    @property
    def answered(self) -> Step:
        """The reply that came back, decoded."""
        return decode_reply(self.reply, self.asked)


class Loopback:
    """Carries what sites ask of each other.

    Parameters
    ----------
    files : mapping of str to Path
        Each site's own file.
    folder : Path
        Below it every site has a folder of its own.
    authorizers : mapping of str to Authorizer
        The say of each site; sites that are not named take part in everything.
    signers : mapping of str to KeySigner
        Who vouches for the keys of masks, where sites have keys of their own.

    Attributes
    ----------
    disturb, after : callable
        `disturb(caller, name, request)` before a request is handled and `after(caller, name, request, reply)` may raise
        what a network raises; the latter may change the reply.
    carried : list of Carried
    """

    def __init__(
        self,
        files: Mapping[str, Path],
        folder: Path,
        authorizers: Mapping[str, Authorizer] | None = None,
        signers: Mapping[str, KeySigner] | None = None,
    ) -> None:
        self.files, self.folder, self.authorizers, self.signers = files, folder, authorizers or {}, signers or {}
        self.disturb: Callable[[str, str, Any], None] = lambda *_: None
        self.after: Callable[[str, str, Any, Any], None] = lambda *_: None
        self.carried: list[Carried] = []
        self.sites: dict[str, Site] = {}
        self.restart()

    def restart(self, *names: str) -> None:
        """Kill sites and start them anew: what was only in memory is gone."""
        for name in names or self.files:
            authorizer = self.authorizers.get(name, AllowAll())
            own = (name, self.files[name], self.folder / name, authorizer, self._asking(name), make_handler)
            self.sites[name] = Site(*own, signer=self.signers.get(name))

    def _asking(self, caller: str) -> Ask:
        def ask(names: Sequence[str], request: Step) -> dict[str, Step]:
            return {name: self._carry(caller, name, request) for name in names}

        return ask

    def _carry(self, caller: str, name: str, request: Step) -> Step:
        self.disturb(caller, name, request)
        content = encode(request)
        reply = encode(self.sites[name].handle(decode_request(content), caller))
        one = Carried(caller, name, content, reply)
        self.carried.append(one)  # other threads carry at the same time: the last of the list may be theirs
        answered = one.answered
        self.after(caller, name, request, answered)
        return answered

    def run(self, text: str, run: str = "run-00000001", **options: Any) -> int:
        """Lead what a text asks for where it is led; the number of rounds."""
        return make_lead(self.sites[lead_name(text)], run, text).go(**options)
