"""The server is started in its own process, says its address once it answers, and lets running answers finish."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable

import uvicorn

from sparql.query.pool import HAS_MEMORY_CAP
from sparql.server import logs
from sparql.server.app import create_app
from sparql.server.config import ServerConfig, ServerError
from sparql.server.connections import Connections
from sparql.server.serving import Serving

log = logging.getLogger("graphtide.operations")
BACKLOG = 512


def serve(config: ServerConfig, ready_callback: Callable[[str], None] | None = None, *, quiet: bool = False) -> None:
    """Serve until SIGINT or SIGTERM. `ready_callback` is called with the URL once it answers.

    Raises ServerError when the address is taken or must not be served without a token.
    """
    app = create_app(config)
    listener = bind(config)
    host, port = listener.getsockname()[:2]
    shown = "localhost" if config.loopback else f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}/"

    def ready() -> None:
        if not quiet:
            print(f"Graphtide answers at {url} (SPARQL at {url}sparql)", flush=True)
            for line in opened(config):
                print(line, flush=True)
            if not HAS_MEMORY_CAP:
                print("On this system queries run without the memory cap.", flush=True)
        if ready_callback is not None:
            ready_callback(url)

    if not quiet:
        logs.configure(config.log, [config.token or ""])
    logging.getLogger("uvicorn.error").addFilter(_ours_to_say)
    serving: Serving = app.state.serving
    server = _Server(
        uvicorn.Config(
            app,
            http=Connections(config, serving.metrics).protocol(),
            ws="none",
            log_config=None,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # the gate reads them, from those that are trusted
            timeout_keep_alive=max(1, round(config.idle_seconds)),
            timeout_graceful_shutdown=max(1, round(config.drain_seconds)),
            backlog=BACKLOG,
            lifespan="on",
        ),
        ready,
        serving,
    )
    if threading.current_thread() is threading.main_thread():
        # uvicorn raises the signal again when it has stopped: this is a clean end, not a death.
        signal.signal(signal.SIGTERM, lambda *_: None)
    with listener, contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def opened(config: ServerConfig) -> list[str]:
    """What the settings opened that is closed by default, a line each."""
    found = []
    if config.exposed:
        found.append("Others reach this server: reading needs a token (`graphtide token add NAME --read`).")
    if config.cors_origins:
        found.append(f"Pages of {', '.join(config.cors_origins)} may read.")
    if config.service_allow:
        found.append(f"SERVICE may ask {', '.join(config.service_allow)}.")
    if config.load_allow:
        found.append(f"LOAD may fetch from {', '.join(config.load_allow)}.")
    if config.context_allow or config.imports_allow:
        listed = ", ".join((*config.context_allow, *config.imports_allow))
        found.append(f"Documents may have contexts and imports from {listed}.")
    if config.allow_private:
        found.append(f"Of what is not public, they may reach {', '.join(config.allow_private)}.")
    if config.otel_endpoint:
        found.append(f"Traces go to {config.otel_endpoint.rpartition('@')[2]}.")
    return found


def bind(config: ServerConfig) -> socket.socket:
    """A listening socket at the configured address; port 0 picks one. Raises ServerError when it cannot be had."""
    host = config.host.strip("[]")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, config.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=BACKLOG)
    except OSError as wrong:
        raise ServerError(
            f"{host}:{config.port} cannot be listened on ({wrong.strerror or wrong}). Choose another with --port."
        ) from wrong


_SAID = (
    "returned without completing response",
    "Invalid HTTP request",
    "Unsupported upgrade",
    "No supported WebSocket",
)


def _ours_to_say(record: logging.LogRecord) -> bool:
    # A failed answer is ended so on purpose, and `answer.py` or `observing.py` has said why; what clients send that is
    # no request is counted, and not worth a line each.
    message = record.getMessage()
    return not any(said in message for said in _SAID)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], serving: Serving) -> None:
        super().__init__(config)
        self._ready, self._serving = ready, serving

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """New queries go elsewhere, then nothing new is taken, then running answers end or are broken off."""
        self._serving.draining = True
        notice, until = self._serving.config.drain_notice, time.monotonic() + self._serving.config.drain_notice
        if notice:
            logs.event(log, logging.INFO, "draining", seconds=notice)
        while time.monotonic() < until and not self.force_exit:
            await asyncio.sleep(0.05)
        await super().shutdown(sockets)
