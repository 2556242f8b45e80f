"""A backup over HTTP goes to the one folder that the settings name, under a name that cannot leave it."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sparql import checkpoint
from sparql.server import protocol
from sparql.server.gate import CHALLENGE
from sparql.server.problem import Problem
from sparql.server.serving import Serving
from sparql.tokens import Token

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}\Z")
SILENCE = 3600.0
"""Seconds a backup may take: it is hard links and one copy of what the store keeps open."""


def routes(serving: Serving) -> list[Route]:
    """`/api/backup`."""
    endpoint = _Backups(serving)
    return [Route("/api/backup", endpoint.list, methods=["GET"]), Route("/api/backup", endpoint.make, methods=["POST"])]


class _Backups:
    def __init__(self, serving: Serving) -> None:
        self.serving = serving

    async def list(self, request: Request) -> Response:
        """The backups there are, the newest first."""
        folder = self._admitted(request)
        found = await self.serving.in_thread(lambda: _in(folder))
        return JSONResponse({"backups": found}, headers={"Cache-Control": "no-store"})

    async def make(self, request: Request) -> Response:
        """A new backup, with the commit it holds."""
        folder = self._admitted(request)
        body = await protocol.body(request, 4096)
        try:
            asked = json.loads(body) if body else {}
        except ValueError as wrong:
            raise Problem(400, "not-json", f"The body is not JSON ({wrong}).") from wrong
        name = asked.get("name", _now()) if isinstance(asked, dict) else None
        if not isinstance(name, str) or not NAME.match(name):
            raise Problem(
                400, "bad-name", f"{name!r} does not name a backup. Use up to 64 letters, digits, '_' and '-'."
            )
        dest = folder / name
        if await self.serving.in_thread(dest.exists):
            raise Problem(409, "backup-exists", f"There is a backup {name!r} already. Choose another name.")
        await self.serving.in_thread(lambda: folder.mkdir(parents=True, exist_ok=True))
        await self.serving.ask_writer("backup", silence=SILENCE, dest=str(dest))
        made = await self.serving.in_thread(lambda: _about(dest))
        return JSONResponse(made, 201, {"Cache-Control": "no-store"})

    def _admitted(self, request: Request) -> Path:
        """The folder, for an admin. Raises Problem 401, 403 and 404."""
        token: Token | None = getattr(request.state, "token", None)
        if token is None:
            raise Problem(401, "token-needed", "Send `Authorization: Bearer TOKEN`, an admin's.", headers=CHALLENGE)
        if not token.admin:
            raise Problem(403, "not-admin", f"The token {token.name!r} makes no backups. Use one made with --admin.")
        if self.serving.config.backups is None:
            raise Problem(404, "no-backups", "Set `backups` under [server] in graphtide.toml to the folder they go to.")
        return Path(self.serving.config.backups)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


def _in(folder: Path) -> list[dict[str, Any]]:
    if not folder.is_dir():
        return []
    found = [_about(path) for path in folder.iterdir() if NAME.match(path.name) and path.is_dir()]
    return sorted((one for one in found if one["commit"] is not None), key=lambda one: -int(one["commit"]))


def _about(path: Path) -> dict[str, Any]:
    """What a backup says of itself; its commit is None when it is none."""
    found = checkpoint.load(path)
    return {"name": path.name, "commit": found and found.commit, "time": found and found.time}
