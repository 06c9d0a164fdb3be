"""The HTTP side of a party's service: paths, who may call them, and how refusals look."""

from __future__ import annotations

import logging
import socket
import ssl
import sys
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any

import uvicorn
from fastapi import APIRouter, Depends, FastAPI, Path, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import generate_latest

from tacit.errors import InputError, RunError
from tacit.service.access import ServiceAccess
from tacit.service.answering import Answerer
from tacit.service.connections import LOG, Connections, Guard, Listener, Metrics, ServiceProtocol
from tacit.service.wire import (
    SESSION,
    Agreed,
    AskScores,
    Health,
    ModelCard,
    OpenSession,
    PassKeys,
    ProblemReply,
    RefusedError,
    ScoresReply,
    SessionKey,
)
from tacit.text import one_line
from tacit.version import __version__

# --- The HTTP side of a party's service: paths, who may call them, and how refusals look


REASONS = {
    400: "not a request",
    401: "no token, or a wrong one",
    403: "the party does not answer with these parties or keys",
    404: "no such session",
    408: "the request took too long to arrive",
    409: "in conflict with an earlier request",
    413: "too large",
    422: "not as described",
    429: "enough for now: see Retry-After",
}
router = APIRouter(prefix="/v1")
bearer = HTTPBearer(auto_error=False)


def _may_refuse(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ProblemReply, "description": REASONS[status]} for status in (*statuses, 408, 413)}


_SCHEMA = {"application/json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
IN_JSON: dict[int | str, dict[str, Any]] = {  # for the one path whose answers are plain text
    status: {"content": _SCHEMA, "description": REASONS[status]} for status in (401, 408, 413)
}


def who(request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(bearer)]) -> str:
    """The name of the caller; refused without one."""
    access: ServiceAccess = request.app.state.access
    shown = getattr(request.state, "certificate", None)
    caller = access.caller(None if given is None else given.credentials, shown)
    if caller is None:
        raise RefusedError(401, "no token, or a wrong one: send Authorization: Bearer TOKEN")
    request.state.caller = caller
    return caller


Caller = Annotated[str, Depends(who)]


@router.get("/health", responses=_may_refuse())
async def health() -> Health:
    """Whether the service runs; open to everybody."""
    return Health(status="ok")


@router.get("/model", responses=_may_refuse(401))
async def model(request: Request, caller: Caller) -> ModelCard:
    """What may be known of the party's part of the model."""
    return _answerer(request).card


@router.get("/metrics", responses=IN_JSON, response_class=PlainTextResponse)
async def metrics(request: Request, caller: Caller) -> PlainTextResponse:
    """Counts for Prometheus: requests, times, and how many ids were answered."""
    return PlainTextResponse(generate_latest(request.app.state.metrics.registry))


@router.post("/sessions", responses=_may_refuse(400, 401, 403, 409, 422, 429))
def open_session(request: Request, caller: Caller, body: OpenSession) -> SessionKey:
    """Begin a session with other parties: the answer is this party's key for it."""
    return _answerer(request).open(caller, body.session, body.parties)


@router.post("/sessions/{session}/keys", responses=_may_refuse(400, 401, 403, 404, 409, 422))
def pass_keys(
    request: Request, caller: Caller, session: Annotated[str, Path(pattern=SESSION)], body: PassKeys
) -> Agreed:
    """Pass the keys of all parties on; the answer is their fingerprint."""
    return Agreed(fingerprint=_answerer(request).agree(caller, session, body.keys))


@router.post("/scores", responses=_may_refuse(400, 401, 403, 404, 409, 422, 429), response_model_exclude_none=True)
def scores(request: Request, caller: Caller, body: AskScores) -> ScoresReply:
    """Scores of some ids, under masks; an unknown id counts as an average one, and nothing says so."""
    answer, unknown = _answerer(request).answer(caller, body.session, body.number, body.ids)
    request.state.ids, request.state.unknown = len(body.ids), unknown
    request.app.state.metrics.ids.inc(len(body.ids))
    return answer


def make_app(answerer: Answerer, access: ServiceAccess) -> FastAPI:
    """The HTTP service of one party, with its limits on who may call and how."""
    app = FastAPI(
        title="Tacit scores",
        version=__version__,
        summary="Scores of one party, under masks that cancel in the sum of all parties",
        openapi_url="/v1/openapi.json",
        docs_url=None,  # they would load scripts from elsewhere
        redoc_url=None,
    )
    app.state.answerer, app.state.access, app.state.metrics = answerer, access, Metrics()
    app.include_router(router)
    app.exception_handler(RefusedError)(_refused)
    app.exception_handler(RequestValidationError)(_not_as_described)
    app.add_middleware(Guard, metrics=app.state.metrics, access=access)
    return app


def _answerer(request: Request) -> Answerer:
    answerer: Answerer = request.app.state.answerer
    return answerer


async def _refused(request: Request, error: RefusedError) -> Response:
    """The status and the line of a refusal; when to try again, and how to say who calls, where that helps."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    if error.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return JSONResponse({"detail": str(error)}, error.status, headers)


async def _not_as_described(request: Request, error: RequestValidationError) -> Response:
    """One line that says where and why, without the value."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return JSONResponse({"detail": f"{where}: {first['msg']}"}, 422)


# --- Listening: a socket, TLS where it is asked for, and the server's own limits on connections and time


BACKLOG, IDLE_SECONDS, LAST_SECONDS, SWEEP_SECONDS = 128, 30, 5, 5


def serve(app: FastAPI, access: ServiceAccess, ready: Callable[[str], None]) -> None:
    """Answer until stopped; `ready` is told the address once the socket listens."""
    connections = Connections()
    listening = _listen(access, connections)
    host, port = listening.getsockname()[:2]
    config = uvicorn.Config(
        app,
        loop="asyncio",  # it accepts by way of the socket, which counts
        http=partial(ServiceProtocol, connections=connections),  # type: ignore[arg-type]
        ws="none",
        proxy_headers=False,  # who calls is who is connected, whatever a header says
        log_config=None,
        access_log=False,  # the guard writes its own lines
        server_header=False,
        callback_notify=connections.sweep,
        timeout_notify=SWEEP_SECONDS,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=LAST_SECONDS,
        ssl_certfile=access.cert,
        ssl_keyfile=access.key,
        ssl_ca_certs=access.ca,
        ssl_cert_reqs=ssl.CERT_NONE if access.ca is None else ssl.CERT_REQUIRED,
    )
    try:
        config.load()
    except (OSError, ssl.SSLError) as error:
        raise InputError(f"cannot use --cert, --key or --ca: {one_line(error)}") from error
    _log_to_terminal()
    ready(f"{access.scheme}://{f'[{host}]' if ':' in host else host}:{port}")
    uvicorn.Server(config).run(sockets=[listening])


def _listen(access: ServiceAccess, connections: Connections) -> Listener:
    try:
        family, kind, _, _, address = socket.getaddrinfo(access.host, access.port, type=socket.SOCK_STREAM)[0]
        # Named as TCP, or asyncio would not switch off Nagle's delay: 40 ms for each answer.
        listening = Listener(family, kind, socket.IPPROTO_TCP)
        listening.connections = connections
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(BACKLOG)
        return listening
    except OSError as error:
        raise RunError(f"cannot listen on {access.host} port {access.port}: {one_line(error)}") from error


def _log_to_terminal() -> None:
    """One line of JSON for each request, on stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
