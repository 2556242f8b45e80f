"""The server is started in its own process, says its address once it answers, and lets running answers finish."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable

import uvicorn

from sparql.query.pool import HAS_MEMORY_CAP
from sparql.server.app import create_app
from sparql.server.config import ServerConfig, ServerError

DRAIN_SECONDS = 5


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
            if not HAS_MEMORY_CAP:
                print("On this system queries run without the memory cap.", flush=True)
        if ready_callback is not None:
            ready_callback(url)

    logging.getLogger("uvicorn.error").addFilter(_not_a_cut)
    server = _Server(
        uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=DRAIN_SECONDS,
            lifespan="on",
        ),
        ready,
    )
    if threading.current_thread() is threading.main_thread():
        # uvicorn raises the signal again when it has stopped: this is a clean end, not a death.
        signal.signal(signal.SIGTERM, lambda *_: None)
    with listener, contextlib.suppress(KeyboardInterrupt):
        server.run(sockets=[listener])


def bind(config: ServerConfig) -> socket.socket:
    """A listening socket at the configured address; port 0 picks one. Raises ServerError when it cannot be had."""
    host = config.host.strip("[]")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, config.port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=512)
    except OSError as wrong:
        raise ServerError(
            f"{host}:{config.port} cannot be listened on ({wrong.strerror or wrong}). Choose another with --port."
        ) from wrong


def _not_a_cut(record: logging.LogRecord) -> bool:
    # A failed answer is ended so on purpose, and `answer.py` has said why.
    return "returned without completing response" not in record.getMessage()


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._ready()
