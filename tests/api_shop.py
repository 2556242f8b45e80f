"""A small shop being served: its writer and its server as processes of their own, as `graphtide up` starts them."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import requests

from sparql.client import WriterClient

BASE = "https://e.example/"
TOKEN = "let-me-in"
ADMIN = {"Authorization": f"Bearer {TOKEN}"}
TOML = f"""base = "{BASE}"

[prefixes]
e = "{BASE}ns#"

# The things.
[sources.services]
path = "services.csv"
key = "id"

[sources.services.map]
class = "gt:Service"
iri = "service/{{id}}"

[sources.services.map.columns]
name = "rdfs:label"
what = "dcterms:description"
uses = {{ property = "gt:dependsOn", split = ";", link = "service/{{uses}}" }}

[sources.teams]
path = "teams.csv"
key = "id"
"""
SERVICES = """id,name,what,uses
checkout,Checkout,Takes the money,payment;cart
payment,Payment gateway,Talks to banks,ledger
cart,Cart,,
ledger,Ledger,,
"""
START = """
import sys
from pathlib import Path
from sparql.server.config import ServerConfig
from sparql.server.serve import serve
options = eval(sys.argv[2])
config = ServerConfig(Path(sys.argv[1]), port=0, **options)
serve(config, lambda url: print("READY", url, flush=True))
"""


@dataclass
class Shop:
    """A folder that is served at `url`."""

    dir: Path
    url: str
    session: requests.Session = field(default_factory=requests.Session)

    def get(self, path: str, **parameters: Any) -> requests.Response:
        return self.session.get(self.url + path.lstrip("/"), params=parameters, timeout=20)

    def json(self, path: str, **parameters: Any) -> Any:
        found = self.get(path, **parameters)
        assert found.status_code == 200, found.text
        return found.json()

    def ask(self, method: str, path: str, **options: Any) -> requests.Response:
        headers = {**ADMIN, **options.pop("headers", {})}
        return self.session.request(method, self.url + path.lstrip("/"), headers=headers, timeout=20, **options)

    def until(self, path: str, holds: Any, seconds: float = 20.0, **parameters: Any) -> Any:
        """What `path` answers once `holds` of it."""
        end = time.monotonic() + seconds
        while True:
            found = self.get(path, **parameters)
            if found.status_code == 200 and holds(found.json()):
                return found.json()
            assert time.monotonic() < end, found.text
            time.sleep(0.05)


def write(dir: Path) -> None:
    """The shop's files."""
    (dir / "graphtide.toml").write_text(TOML)
    (dir / "services.csv").write_text(SERVICES)
    (dir / "teams.csv").write_text("id,name\nred,Red team\nblue,Blue team\n")


@contextmanager
def writer(dir: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The writer of the folder runs, and has read everything once."""
    log = dir.with_name(f"{dir.name}.writer.log")
    with log.open("ab") as errors:
        process = subprocess.Popen([sys.executable, "-m", "graphtide", "writer", str(dir)], stderr=errors)
    try:
        end = time.monotonic() + 30
        client = WriterClient(dir / ".graphtide")
        while not client.available() or not client.call("status")["sources"][0]["records"]:
            assert time.monotonic() < end and process.poll() is None
            time.sleep(0.05)
        yield process
    finally:
        process.terminate()
        process.wait(20)
        assert "Traceback" not in log.read_text(), log.read_text()


@contextmanager
def server(dir: Path, **options: Any) -> Iterator[Shop]:
    """The folder is served; its index is there soon."""
    options = {"base": BASE, "token": TOKEN, "workers": 1, "spares": 0, **options}
    log = dir.with_name(f"{dir.name}.server.log")
    with log.open("ab") as errors:  # a pipe that nobody reads would stop the server when it is full
        process = subprocess.Popen(
            [sys.executable, "-c", START, str(dir / ".graphtide"), repr(options)],
            stdout=subprocess.PIPE, stderr=errors, text=True, env={**os.environ},
        )  # fmt: skip
    try:
        assert process.stdout is not None
        url = next((line.split()[1] for line in process.stdout if line.startswith("READY")), None)
        assert url is not None, log.read_text()
        yield Shop(dir, url)
    finally:
        process.terminate()
        process.wait(20)
        assert "Traceback" not in log.read_text(), log.read_text()[-5000:]
