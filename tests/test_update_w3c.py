"""The W3C's update tests, each through HTTP, on a plain store: data put as graphs, the update sent, the graphs read."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import rdflib
from pyoxigraph import CanonicalizationAlgorithm, Dataset, Quad, RdfFormat, parse
from rdflib.collection import Collection
from rdflib.namespace import RDFS, Namespace

from tests.conftest import ABSENT, SHARED
from tests.endpoint import Endpoint, endpoint

MF = Namespace("http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#")
UT = Namespace("http://www.w3.org/2009/sparql/tests/test-update#")
W3C = SHARED / "w3c-sparql11"
FOLDERS = (
    "add", "basic-update", "clear", "copy", "delete", "delete-data", "delete-insert", "delete-where", "drop", "move",
    "update-silent",
)  # fmt: skip
NAMED: dict[str, str] = {}
"""Tests whose outcome is another one here, and why."""

Graphs = dict[str, set[Quad]]


def cases() -> Iterator[tuple[str, Path, str]]:
    for folder in FOLDERS:
        path = W3C / folder / "manifest.ttl"
        if path.exists():
            graph = _manifest(path)
            for entry in Collection(graph, graph.value(predicate=MF.entries, object=None, subject=_root(path))):
                if (entry, rdflib.RDF.type, MF.UpdateEvaluationTest) in graph:
                    yield f"{folder}/{str(entry).rpartition('#')[2]}", path, str(entry)


def _root(path: Path) -> rdflib.URIRef:
    return rdflib.URIRef(path.as_uri())


@cache
def _manifest(path: Path) -> rdflib.Graph:
    return rdflib.Graph().parse(path, format="turtle", publicID=path.as_uri())


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with endpoint(tmp_path_factory.mktemp("plain"), "merge = false\n") as found:
        yield found


def _file(iri: Any) -> Path:
    return Path(unquote(urlsplit(str(iri)).path))


def _graphs(manifest: rdflib.Graph, node: Any) -> dict[str, Path]:
    """The files of a dataset by graph."""
    out = {}
    data = manifest.value(node, UT.data)
    if data is not None:
        out[""] = _file(data)
    for one in manifest.objects(node, UT.graphData):
        file, label = manifest.value(one, UT.graph), manifest.value(one, RDFS.label)
        out[str(label)] = _file(file)
    return out


def _triples(path: Path) -> str:
    found = parse(path.read_bytes(), format=RdfFormat.TURTLE, base_iri=path.as_uri())
    return "".join(f"{quad.triple} .\n" for quad in found)


def _canonical(text: str) -> set[str]:
    found = Dataset(parse(text.encode(), format=RdfFormat.N_TRIPLES))
    found.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return {str(quad) for quad in found}


def _url(graph: str) -> dict[str, str]:
    return {"graph": graph} if graph else {"default": ""}


@pytest.mark.parametrize(("name", "path", "entry"), [pytest.param(*one, id=one[0]) for one in cases()] or [
    pytest.param("", Path(), "", marks=pytest.mark.skip(reason=f"shared: {ABSENT}"))
])  # fmt: skip
def test_an_update_of_the_w3c_ends_in_its_graphs(plain: Endpoint, name: str, path: Path, entry: str) -> None:
    manifest = _manifest(path)
    node = rdflib.URIRef(entry)
    action, result = manifest.value(node, MF.action), manifest.value(node, MF.result)
    assert plain.update("DROP ALL").status_code == 200
    for graph, file in _graphs(manifest, action).items():
        sent = plain.send(
            "PUT", "store", params=_url(graph), data=_triples(file).encode(),
            headers={"Content-Type": "application/n-triples"},
        )  # fmt: skip
        assert sent.status_code in (201, 204), sent.text
    request = _file(manifest.value(action, UT.request))
    answer = plain.update(request.read_text("utf-8"))
    assert answer.status_code == 200, answer.text
    expected = {graph: _canonical(_triples(file)) for graph, file in _graphs(manifest, result).items()}
    there = [row[0] for row in plain.rows("SELECT DISTINCT ?g { GRAPH ?g { ?s ?p ?o } }")]
    found = {}
    for graph in {"", *there, *expected}:
        got = plain.send("GET", "store", params=_url(graph), headers={"Accept": "application/n-triples"})
        assert got.status_code == 200 or (got.status_code == 404 and graph not in there), got.text
        found[graph] = _canonical(got.text) if got.status_code == 200 else set()
    expected = {graph: triples for graph, triples in expected.items() if triples}
    assert {graph: triples for graph, triples in found.items() if triples} == expected, NAMED.get(name)
