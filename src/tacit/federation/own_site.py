"""The site of an organisation, from its kit."""

from __future__ import annotations

from pathlib import Path

from tacit.data.wording import show
from tacit.errors import InputError
from tacit.federation.gate import SiteGate
from tacit.federation.kit import Kit
from tacit.federation.site import Ask, Site


def own_site(kit: Kit, ask: Ask) -> Site:
    """The site that a kit describes, with its own file and its own say."""
    data = kit.settings().get("data")
    if not isinstance(data, str):
        raise InputError(f"{show(kit.name)} has no data file: start it with tacit join KIT --data FILE")
    new = kit.settings().get("predict")
    return Site(kit.name, Path(data), kit.jobs, SiteGate(kit), ask, None if new is None else Path(new))
