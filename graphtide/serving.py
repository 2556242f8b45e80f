"""The server process: reads the settings once, then only the graph's own files; it never opens the store."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from .pipeline import PREFIXES
from .settings import load


def main(dir: str, *, port: int | None = None, dagster_url: str | None = None) -> int:
    """Serve the folder's graph until SIGTERM or SIGINT. Raises SettingsError, ServerError."""
    from sparql.server.config import ServerConfig
    from sparql.server.serve import serve

    settings = load(dir)
    limits, server = settings.limits, settings.server
    queries = settings.dir / server.queries if server.queries else None
    config = ServerConfig(
        settings.state, settings.base, host=server.host, port=server.port,
        prefixes={**PREFIXES, **settings.prefixes}, token=os.environ.get("GRAPHTIDE_TOKEN") or None,
        queries=Path(queries) if queries else None, workers=limits.workers, spares=limits.spares,
        deadline=limits.query_seconds, memory_bytes=limits.query_memory_bytes, dagster_url=dagster_url,
    )  # fmt: skip
    settings.state.mkdir(parents=True, exist_ok=True)
    serve(config if port is None else replace(config, port=port))
    return 0
