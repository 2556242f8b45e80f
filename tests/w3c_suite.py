"""The W3C's SPARQL 1.1 tests as data: what each loads, asks and expects, whatever the manifest's spelling."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import rdflib
from pyoxigraph import (
    BlankNode,
    CanonicalizationAlgorithm,
    Dataset,
    Literal,
    NamedNode,
    Quad,
    QueryResultsFormat,
    RdfFormat,
    parse,
    parse_query_results,
)
from rdflib.collection import Collection
from rdflib.namespace import Namespace

from tests.conftest import SHARED

MF = Namespace("http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#")
QT = Namespace("http://www.w3.org/2001/sw/DataAccess/tests/test-query#")
RS = Namespace("http://www.w3.org/2001/sw/DataAccess/tests/result-set#")
HT = Namespace("http://www.w3.org/2011/http#")
CNT = Namespace("http://www.w3.org/2011/content#")
W3C = SHARED / "w3c-sparql11"
XSD = "http://www.w3.org/2001/XMLSchema#"
RDF_FILES = {".ttl": RdfFormat.TURTLE, ".nt": RdfFormat.N_TRIPLES, ".rdf": RdfFormat.RDF_XML}
RESULTS = {".srx": QueryResultsFormat.XML, ".srj": QueryResultsFormat.JSON, ".tsv": QueryResultsFormat.TSV}


@dataclass(frozen=True)
class Case:
    """One query evaluation test: `default` and `named` are the files of its dataset."""

    name: str
    query: Path
    default: tuple[Path, ...]
    named: tuple[Path, ...]
    result: Path


@dataclass(frozen=True)
class Asked:
    """One request of a protocol test, and what its answer must be."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes | None
    statuses: tuple[str, ...]
    boolean: bool | None
    format: str | None


def evaluations(*folders: str) -> Iterator[Case]:
    """The query evaluation and result format tests of these folders, those with the same data beside each other."""
    found = []
    for folder in folders:
        manifest, entries = _entries(W3C / folder / "manifest.ttl")
        for entry in entries:
            action, result = manifest.value(entry, MF.action), manifest.value(entry, MF.result)
            query = manifest.value(action, QT.query) if action is not None else None
            if query is None or result is None:
                continue
            found.append(
                Case(
                    f"{folder}/{str(entry).rpartition('#')[2]}",
                    file(query),
                    tuple(sorted(map(file, manifest.objects(action, QT.data)))),
                    tuple(sorted(map(file, manifest.objects(action, QT.graphData)))),
                    file(result),
                )
            )
    yield from sorted(found, key=lambda case: (case.default, case.named, case.name))


def protocol() -> Iterator[tuple[str, list[Asked]]]:
    """The protocol tests: name, and requests in order; they all need the files of their folder as graphs."""
    manifest, entries = _entries(W3C / "protocol" / "manifest.ttl")
    for entry in entries:
        action = manifest.value(entry, MF.action)
        requests = [_asked(manifest, one) for one in _list(manifest, manifest.value(action, HT.requests))]
        yield str(entry).rpartition("#")[2], requests


def _asked(manifest: rdflib.Graph, node: Any) -> Asked:
    headers = {
        str(manifest.value(one, HT.fieldName)).lower(): str(manifest.value(one, HT.fieldValue))
        for one in _list(manifest, manifest.value(node, HT.headers))
    }
    body, response = manifest.value(node, HT.body), manifest.value(node, HT.resp)
    boolean, format_ = manifest.value(response, MF.expectedBoolean), manifest.value(response, MF.expectedFormat)
    data = None
    if body is not None:
        data = str(manifest.value(body, CNT.chars)).encode(str(manifest.value(body, CNT.characterEncoding) or "utf-8"))
    return Asked(
        str(manifest.value(node, HT.methodName)),
        str(manifest.value(node, HT.absolutePath)),
        headers,
        data,
        tuple(str(one).rpartition("StatusCode")[2] for one in manifest.objects(response, MF.expectedStatus)),
        None if boolean is None else bool(boolean.toPython()),  # type: ignore[attr-defined]
        None if format_ is None else str(format_),
    )


@lru_cache(maxsize=64)
def _entries(path: Path) -> tuple[rdflib.Graph, list[Any]]:
    graph = rdflib.Graph().parse(path, format="turtle", publicID=path.as_uri())
    listed: list[Any] = []
    for head in graph.objects(None, MF.entries):
        listed += _list(graph, head)
    return graph, listed


def _list(graph: rdflib.Graph, node: Any) -> list[Any]:
    return [] if node is None else list(Collection(graph, node))


def file(iri: Any) -> Path:
    """The file of a file: IRI."""
    return Path(unquote(urlsplit(str(iri)).path))


def triples(path: Path) -> str:
    """The triples of a file as N-Triples, relative IRIs resolved against the file."""
    found = parse(path.read_bytes(), format=RDF_FILES[path.suffix], base_iri=path.as_uri())
    return "".join(f"{quad.triple} .\n" for quad in found)


def graph_of(data: bytes, form: RdfFormat, base: str | None = None) -> set[str]:
    """What an RDF document says, equal for what is isomorphic."""
    return _canonical(Quad(q.subject, q.predicate, _valued(q.object)) for q in parse(data, format=form, base_iri=base))


def table_of(data: bytes, form: QueryResultsFormat) -> tuple[list[str], set[str]] | bool:
    """(columns, rows) of a result document, equal for what is isomorphic; or its boolean."""
    found: Any = parse_query_results(data, format=form)
    if not hasattr(found, "variables"):
        return bool(found)
    columns = [variable.value for variable in found.variables]
    return sorted(columns), _rows(columns, ([row[name] for name in columns] for row in found))


def expected(case: Case) -> Any:
    """What the test expects, as `table_of` and `graph_of` say it; the lines of a CSV file as a sorted list."""
    path = case.result
    if path.suffix in RESULTS:
        return table_of(path.read_bytes(), RESULTS[path.suffix])
    if path.suffix == ".csv":
        return lines(path.read_bytes())
    graph = rdflib.Graph().parse(path, publicID=path.as_uri())
    (results,) = list(graph.subjects(rdflib.RDF.type, RS.ResultSet)) or [None]
    if results is None:
        return graph_of(path.read_bytes(), RDF_FILES[path.suffix], path.as_uri())
    boolean = graph.value(results, RS.boolean)
    if boolean is not None:
        return bool(boolean.toPython())  # type: ignore[attr-defined]
    columns = [str(one) for one in graph.objects(results, RS.resultVariable)]
    rows = []
    for solution in graph.objects(results, RS.solution):
        cells = {
            str(graph.value(one, RS.variable)): _term(graph.value(one, RS.value))
            for one in graph.objects(solution, RS.binding)
        }
        rows.append([cells.get(name) for name in columns])
    return sorted(columns), _rows(columns, rows)


def lines(data: bytes) -> list[list[str]]:
    """The rows of a CSV answer, its columns by name, its blank nodes without theirs, the header first."""
    text = re.sub(r"_:[\w.-]+", "_:b", data.decode())
    head, *rest = csv.reader(io.StringIO(text, newline=""))
    order = sorted(range(len(head)), key=lambda n: head[n])
    return [[head[n] for n in order], *sorted([_number(row[n]) for n in order] for row in rest)]


def _number(cell: str) -> str:
    # A cell has no datatype: 1.0E6 and 1000000 are the same double in two spellings.
    with contextlib.suppress(ValueError):
        return repr(float(cell))
    return cell


def _term(node: Any) -> Any:
    if isinstance(node, rdflib.URIRef):
        return NamedNode(str(node))
    if isinstance(node, rdflib.BNode):
        return BlankNode(str(node))
    if node.language:
        return Literal(str(node), language=node.language)
    return Literal(str(node), datatype=NamedNode(str(node.datatype or XSD + "string")))


def _rows(columns: list[str], rows: Any) -> set[str]:
    quads = []
    for n, row in enumerate(rows):
        me = BlankNode(f"row{n}")
        quads.append(Quad(me, NamedNode("urn:row"), NamedNode("urn:row")))
        for name, cell in zip(columns, row, strict=True):
            if cell is not None:
                quads.append(Quad(me, NamedNode(f"urn:column:{name}"), _valued(cell)))
    return _canonical(quads)


def _canonical(quads: Any) -> set[str]:
    found = Dataset(quads)
    found.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return {str(quad) for quad in found}


def _valued(term: Any) -> Any:
    """A number by its value: 1.0 and 1.00 are one."""
    if not isinstance(term, Literal) or not term.datatype.value.startswith(XSD):
        return term
    kind = term.datatype.value[len(XSD) :]
    try:
        if kind in ("double", "float"):
            return Literal(repr(float(term.value)), datatype=term.datatype)
        if kind == "boolean":
            return Literal("true" if term.value in ("1", "true") else "false", datatype=term.datatype)
        if kind == "decimal" or kind == "integer":
            return Literal(format(Decimal(term.value).normalize(), "f"), datatype=term.datatype)
    except (ValueError, ArithmeticError):
        pass
    return term
