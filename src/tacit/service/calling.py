"""A line to one party: requests with time limits, replies checked, refusals as one line."""

from __future__ import annotations

import ssl
import time
from typing import Any, TypeVar
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from tacit.data.wording import one_line, show
from tacit.errors import InputError, RunError
from tacit.service.access import is_loopback

Reply_ = TypeVar("Reply_", bound=BaseModel)
MOST_BYTES = 2**22  # of an answer: 10,000 scores take a tenth of it
AWAY = (502, 503, 504)  # a party behind a proxy that is away, or has too many connections


class AwayError(RunError):
    """A party that cannot be reached, or does not answer in time."""


class Line:
    """How one party is reached.

    Parameters
    ----------
    name, url : str
    token : str, optional
    tls : ssl.SSLContext, optional
        What is trusted, and the caller's certificate.
    seconds : float
        How long to wait for an answer.
    """

    def __init__(
        self, name: str, url: str, token: str | None = None, tls: ssl.SSLContext | None = None, seconds: float = 30.0
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{show(url)} is no address of {show(name)}: give http://HOST:PORT or https://HOST:PORT")
        if parts.scheme == "http" and not is_loopback(parts.hostname):
            raise InputError(f"{show(url)} would send ids and token in the clear: use https://")
        self.name, self.url, self._seconds = name, url.rstrip("/"), seconds
        self._client = httpx.Client(
            base_url=self.url,
            headers={"Accept-Encoding": "identity"} | ({} if token is None else {"Authorization": f"Bearer {token}"}),
            verify=tls if tls is not None else True,
            timeout=httpx.Timeout(seconds, connect=min(5.0, seconds)),
            trust_env=False,
        )

    def close(self) -> None:
        """Hang up."""
        self._client.close()

    def get(self, path: str, kind: type[Reply_]) -> Reply_:
        """Ask for something."""
        return self._call("GET", path, None, kind, 1)

    def post(self, path: str, body: dict[str, Any], kind: type[Reply_], *, tries: int = 1) -> Reply_:
        """Send something; the same request again gets the same answer, so that it may be tried twice."""
        return self._call("POST", path, body, kind, tries)

    def _call(self, method: str, path: str, body: dict[str, Any] | None, kind: type[Reply_], tries: int) -> Reply_:
        try:
            response = self._whole(method, path, body)
        except httpx.TransportError as error:
            if tries > 1:
                return self._call(method, path, body, kind, tries - 1)
            if isinstance(error.__cause__, ssl.SSLError) or "SSL" in str(error) or "certificate" in str(error):
                raise RunError(f"{self.name} and we do not trust each other's certificates: {error}") from error
            raise AwayError(f"{self.name} is away") from error
        if response.status_code in AWAY:
            raise AwayError(f"{self.name} is away")
        if response.status_code != httpx.codes.OK:
            raise RunError(f"{self.name} refuses: {_reason(response)}")
        try:
            return kind.model_validate_json(response.content)
        except ValidationError as error:
            raise RunError(f"{self.name} sent what is no {kind.__name__}: is it this service?") from error

    def _whole(self, method: str, path: str, body: dict[str, Any] | None) -> httpx.Response:
        """The answer, read as far as an answer can be long, in a bounded time."""
        until, parts, size = time.monotonic() + self._seconds, list[bytes](), 0
        with self._client.stream(method, path, json=body) as response:
            for part in response.iter_raw():  # as it comes: what was packed could unpack to any size
                parts.append(part)
                size += len(part)
                if size > MOST_BYTES or time.monotonic() > until:
                    raise RunError(f"{self.name} sent more than an answer can be, or too slowly: is it this service?")
            return httpx.Response(response.status_code, headers=_plain(response.headers), content=b"".join(parts))


def _plain(headers: httpx.Headers) -> httpx.Headers:
    """Without what would make the content be unpacked."""
    return httpx.Headers([(name, value) for name, value in headers.items() if name != "content-encoding"])


def _reason(response: httpx.Response) -> str:
    try:
        text = str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        text = response.reason_phrase
    wait = response.headers.get("Retry-After")
    line = one_line(RunError(text))
    return line if wait is None else f"{line} (again in {one_line(RunError(wait))} s)"
