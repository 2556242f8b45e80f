"""The server process: reads the settings once, then only the graph's own files; it never opens the store."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from typing import TYPE_CHECKING

from .pipeline import PREFIXES
from .questions import model_settings
from .settings import Settings, load

if TYPE_CHECKING:
    from sparql.server.config import ServerConfig


SET = frozenset({"queries", "backups"})  # paths, which settings write relative to their folder


def main(dir: str, *, port: int | None = None, dagster_url: str | None = None) -> int:
    """Serve the folder's graph until SIGTERM or SIGINT. Raises SettingsError, ServerError."""
    from sparql.server.serve import serve

    settings = load(dir)
    config = server_config(settings, dagster_url)
    settings.state.mkdir(parents=True, exist_ok=True)
    serve(config if port is None else replace(config, port=port))
    return 0


def server_config(settings: Settings, dagster_url: str | None = None) -> ServerConfig:
    """What the settings allow the server, secrets from the environment added. `check` says whether it may start."""
    from sparql.server.config import ServerConfig

    limits, server = settings.limits, settings.server
    # A limit of the server is named alike in both, but for the two that predate it.
    same = {field.name for field in fields(ServerConfig)} - {"prefixes"}
    return ServerConfig(
        settings.state,
        settings.base,
        prefixes={**PREFIXES, **settings.prefixes},
        token=os.environ.get("GRAPHTIDE_TOKEN") or None,
        queries=settings.dir / server.queries if server.queries else None,
        backups=settings.dir / server.backups if server.backups else None,
        deadline=limits.query_seconds,
        memory_bytes=limits.query_memory_bytes,
        warm_bytes=limits.memory_graph_bytes,
        dagster_url=dagster_url,
        model=model_settings(settings),
        **{name: value for name, value in vars(limits).items() if name in same},
        **{name: value for name, value in vars(server).items() if name in same - SET and value is not None},
    )
