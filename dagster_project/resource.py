"""Anyone's asset asks the graph with one line, over HTTP or on a replica of its own beside the data."""

import json
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import dagster as dg
from pydantic import Field

Row = dict[str, Any]
JSON = "application/sparql-results+json"


class GraphError(RuntimeError):
    """The graph did not answer; `str()` says what it said."""


class Graph(dg.ConfigurableResource):  # type: ignore[type-arg]
    """The graph of a folder, for assets of your own.

    With `url` (`http://127.0.0.1:8000`) the running server is asked; without, the folder `dir` is read by a query
    worker of our own, at its newest commit.
    """

    dir: str | None = Field(default=None, description="The folder with the data and `graphtide.toml`.")
    url: str | None = Field(default=None, description="Where `graphtide up` or `graphtide serve` listens.")
    seconds: float = Field(default=30.0, description="A query is stopped after this long.")

    def query(self, sparql: str) -> list[Row]:
        """The rows of a SELECT as dicts of Python values; [{"boolean": ...}] of an ASK. Unbound variables are None.

        Raises GraphError with what the graph answered.
        """
        return rows(json.loads(self._over_http(sparql) if self.url else self._from_folder(sparql)))

    def sync(self, source: str) -> dict[str, Any]:
        """Bring one source of the folder in step now, and its report."""
        if not self.dir:
            raise GraphError("Graph.sync needs the folder: give the resource its dir.")
        from dagster_project import folder

        log = dg.get_dagster_logger("graphtide")
        return dict(folder.sync(Path(self.dir), source, lambda event: log.info(json.dumps(event, default=str))).report)

    def _over_http(self, sparql: str) -> bytes:
        assert self.url
        asked = urllib.request.Request(
            self.url.rstrip("/") + "/sparql",
            data=sparql.encode(),
            headers={"Content-Type": "application/sparql-query", "Accept": JSON},
        )
        try:
            with urllib.request.urlopen(asked, timeout=self.seconds + 5) as answer:
                return bytes(answer.read())
        except urllib.error.HTTPError as wrong:
            raise GraphError(
                f"{self.url} answered {wrong.code}: {wrong.read(2000).decode(errors='replace')}"
            ) from wrong
        except OSError as wrong:
            raise GraphError(
                f"{self.url} cannot be reached ({wrong}). Is `graphtide up` or `serve` running?"
            ) from wrong

    def _from_folder(self, sparql: str) -> bytes:
        if not self.dir:
            raise GraphError("Graph needs a url or a dir.")
        from dagster_project import folder
        from sparql.query.pool import QueryFailed

        try:
            return folder.answer(Path(self.dir), sparql, self.seconds)
        except QueryFailed as wrong:
            raise GraphError(str(wrong)) from wrong


def rows(answer: dict[str, Any]) -> list[Row]:
    """SPARQL JSON results as Python rows: numbers and booleans are themselves, anything else is its text."""
    if "boolean" in answer:
        return [{"boolean": answer["boolean"]}]
    columns = answer["head"]["vars"]
    return [{name: _value(row.get(name)) for name in columns} for row in answer["results"]["bindings"]]


XSD = "http://www.w3.org/2001/XMLSchema#"
_NUMBERS: dict[str, Any] = {XSD + "integer": int, XSD + "decimal": float, XSD + "double": float, XSD + "float": float}


def _value(term: dict[str, str] | None) -> Any:
    if term is None:
        return None
    datatype = term.get("datatype")
    if datatype == XSD + "boolean":
        return term["value"] in ("true", "1")
    return _NUMBERS.get(datatype or "", str)(term["value"])
