"""A job that trains nothing: every site says that it is there, and with which version."""

from __future__ import annotations

import os
from typing import Any

from nvflare.collab import collab

from tacit import __version__

__all__ = ["Caller", "Present"]


class Caller:
    """Asks every site, at the server."""

    @collab.main
    def run(self) -> dict[str, Any]:
        """Ask, and return the answers by site."""
        answers = dict(collab.clients(timeout=30).present())
        print(f"roll call: {sorted(answers.items())}", flush=True)
        return answers


class Present:
    """Answers, at a party."""

    @collab.publish
    def present(self) -> str:
        """Return the version, and whether the site's kit is known."""
        return f"{__version__} {'with' if os.environ.get('TACIT_KIT') else 'without'} kit"
