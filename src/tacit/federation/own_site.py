"""The site of an organisation, from its kit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tacit.data.cluster import ClusterAddress
from tacit.errors import InputError
from tacit.federation.consent import KitAuthorizer
from tacit.federation.handlers import make_handler
from tacit.federation.kit import Kit
from tacit.federation.members import MaskSigner
from tacit.federation.site import Ask, Site
from tacit.text import show


def own_site(kit: Kit, ask: Ask) -> Site:
    """The site that a kit describes, with its own file and its own say."""
    settings = kit.settings()
    data = settings.get("data")
    if not isinstance(data, str):
        raise InputError(f"{show(kit.name)} has no data file: start it with tacit join KIT --data FILE")
    new = settings.get("predict")
    authorizer, rows = KitAuthorizer(kit), None if new is None else Path(new)
    own = (rows, own_cluster(settings), MaskSigner(kit))
    return Site(kit.name, Path(data), kit.jobs, authorizer, ask, make_handler, *own)


def own_cluster(settings: Mapping[str, Any]) -> ClusterAddress | None:
    """The organisation's own Dask cluster, as site.toml names it: dask, dask_tls, dask_insecure.

    Raises
    ------
    InputError
        For an address that cannot be used, or that nothing protects.
    """
    scheduler, tls, insecure = (settings.get(key) for key in ("dask", "dask_tls", "dask_insecure"))
    if scheduler is None:
        return None
    if not isinstance(scheduler, str) or not isinstance(tls, str | None) or not isinstance(insecure, bool | None):
        raise InputError("site.toml: dask and dask_tls are texts, dask_insecure is true or false: fix them")
    address = ClusterAddress(scheduler, tls, bool(insecure))
    address.check()
    return address
