"""Predicting together over HTTP: each party answers with masked scores, whoever asks gets their sum."""

from __future__ import annotations

from importlib.util import find_spec

from tacit.errors import InputError

NEEDS = ("fastapi", "uvicorn", "httpx", "prometheus_client")


def require_packages() -> None:
    """Refuse in one line where the packages of the extra are missing."""
    missing = [name for name in NEEDS if find_spec(name) is None]
    if missing:
        raise InputError(f"this needs {', '.join(missing)}, not installed here: pip install 'tacit[service]'")
