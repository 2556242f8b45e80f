"""An endpoint to be written to: an engine here, its writer's socket, and a server process before it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import requests

from graphtide.engine import Engine, handlers
from graphtide.writer import _refusing, _tell
from sparql.store.socket import serve as listen

BASE = "https://w.example/"
TOKEN = "the admin's own secret"
START = "import sys; from graphtide.serving import main; main(sys.argv[1], port=0)"


@dataclass
class Endpoint:
    """`url` ends in a slash. Every method sends the admin's token unless told otherwise."""

    url: str
    engine: Engine
    process: subprocess.Popen[str]
    session: requests.Session

    def send(self, method: str, path: str, *, token: str | None = TOKEN, **options: Any) -> requests.Response:
        headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **options.pop("headers", {})}
        return self.session.request(method, self.url + path, headers=headers, timeout=30, **options)

    def update(self, text: str, *, token: str | None = TOKEN, **parameters: Any) -> requests.Response:
        headers = {"Content-Type": "application/sparql-update"}
        data = text.encode()
        return self.send("POST", "sparql", token=token, data=data, headers=headers, params=parameters)

    def rows(self, query: str) -> list[list[str]]:
        found = self.send("GET", "sparql", params={"query": query}, headers={"Accept": "text/csv"})
        assert found.status_code == 200, found.text
        return [line.split(",") for line in found.text.split("\r\n")[1:-1]]

    def holds(self, pattern: str) -> bool:
        found = self.send("GET", "sparql", params={"query": f"ASK {{ {pattern} }}"})
        assert found.status_code == 200, found.text
        return bool(found.json()["boolean"])


@contextmanager
def endpoint(folder: Path, settings: str = "", *, base: str = BASE) -> Iterator[Endpoint]:
    """The endpoint of a folder with these settings behind `base`; GRAPHTIDE_TOKEN is TOKEN."""
    (folder / "graphtide.toml").write_text(f'base = "{base}"\n{settings}')
    with Engine(folder) as engine:
        engine.sync()
        server = listen(
            engine.settings.state, {name: _refusing(one) for name, one in handlers(engine).items()}, on_error=_tell
        )
        env = {**os.environ, "GRAPHTIDE_TOKEN": TOKEN}
        process = subprocess.Popen(
            [sys.executable, "-c", START, str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=env,
        )
        try:
            assert process.stdout is not None and process.stderr is not None
            found = re.search(r"http://\S+/", process.stdout.readline())
            assert found is not None, process.stderr.read()
            with requests.Session() as session:
                yield Endpoint(found.group().replace("localhost", "127.0.0.1"), engine, process, session)
        finally:
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=20)
            server.close(0.0)
            assert "Traceback" not in errors, errors
