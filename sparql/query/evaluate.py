"""What a query finds is written as it is found, in the format agreed for its kind, and counted on the way."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from pyoxigraph import (
    BlankNode,
    DefaultGraph,
    NamedNode,
    QueryBoolean,
    QueryResultsFormat,
    QuerySolutions,
    QueryTriples,
    RdfFormat,
    Store,
    Triple,
    serialize,
)

from sparql.names import Names
from sparql.query import results
from sparql.query.admit import admit, ask_engine, declared_prefixes
from sparql.query.counting import COUNTERS, Counter
from sparql.query.frames import FrameWriter, TooLong
from sparql.query.lines import Lines

_PREFIXED = (RdfFormat.TURTLE, RdfFormat.TRIG, RdfFormat.RDF_XML, RdfFormat.JSON_LD)
_IRI = r"<[^<>\"{}|^`\\\s]*>"
_PROLOGUE = re.compile(rf"(?:\s+|#[^\n\r]*|PREFIX\s*[^\s:<>]*:\s*{_IRI})*", re.IGNORECASE)
_DECLARED = re.compile(r"#[^\n\r]*|PREFIX\s*([^\s:<>]*):\s*<([^<>\s]*)>", re.IGNORECASE)
_SERVICE = re.compile(r"service", re.IGNORECASE)


def evaluate(
    store: Store,
    ask: dict[str, Any],
    query: str,
    prefixes: dict[str, str],
    base: str,
    writer: FrameWriter,
    stand: dict[str, Any],
    folder: Path,
) -> None:
    """The answer is written but for its end. Raises Refused, SyntaxError, NotAcceptable, TooLong."""
    if not ask.get("admitted") or _SERVICE.search(query) is not None:
        admit(query, prefixes, base)
    default, named = ask.get("default_graphs") or [], ask.get("named_graphs") or []
    options: dict[str, Any] = {}
    if default or named:  # the protocol's dataset replaces the query's: what is not listed is not in it
        options["default_graph"] = [NamedNode(iri) if iri else DefaultGraph() for iri in default]
        options["named_graphs"] = [NamedNode(iri) for iri in named]
    found = ask_engine(store, query, prefixes, base, **options)
    if isinstance(found, QuerySolutions):
        kind, columns = results.ROWS, [variable.value for variable in found.variables]
    elif isinstance(found, QueryBoolean):
        kind, columns = results.BOOLEAN, []
    else:
        kind, columns = results.TRIPLES, ["subject", "predicate", "object"]
    name = (ask.get("formats") or {}).get(kind)
    if name is None or not results.BY_NAME[name].writes(kind):
        raise results.NotAcceptable(
            f"The answer to this query is {kind}: ask for one of {', '.join(results.media_types(kind))}."
        )
    form = results.BY_NAME[name]
    limits = (ask.get("max_rows") or 0, ask.get("max_bytes") or 0)
    head = {"kind": kind, "format": name, "columns": columns, **stand}
    if isinstance(found, QueryTriples):
        assert form.triples is not None
        counter = Counter()
        writer.head(head, counter, *limits)
        shown = prefixes | _declared(query, prefixes, base) if form.triples in _PREFIXED else {}
        usable = {prefix: iri for prefix, iri in shown.items() if absolute(iri)}
        triples = _counted(found, counter, Names(base).skolem, limits[0])
        serialize(triples, writer, form.triples, prefixes=usable)  # type: ignore[arg-type]
        return
    if form.table:
        counter = Counter()
        writer.head(head, counter, *limits)
        _write_table(form.table, found, writer, counter, limits[0])
        return
    assert form.rows is not None
    writer.head(head, COUNTERS[form.rows]() if kind == results.ROWS else None, *limits)
    found.serialize(writer, form.rows)


def _declared(query: str, prefixes: dict[str, str], base: str) -> dict[str, str]:
    """The prefixes the query, which the engine has read, declares: those make its answer short."""
    prologue = _PROLOGUE.match(query)
    found = dict(pair for pair in _DECLARED.findall(prologue.group()) if pair[1]) if prologue else {}
    if all(map(absolute, found.values())):
        return found
    return declared_prefixes(admit(query, prefixes, base))  # which takes milliseconds, and knows BASE


def _write_table(
    table: str, found: QuerySolutions | QueryBoolean, writer: FrameWriter, counter: Counter, most: int
) -> None:
    if table == results.NDJSON:
        if isinstance(found, QueryBoolean):
            writer.write(b'{"boolean":true}\n' if found else b'{"boolean":false}\n')
            return
        lines = Lines(writer, counter)
        found.serialize(lines, QueryResultsFormat.JSON)  # type: ignore[arg-type]
        lines.finish()
        return
    from sparql.query import tables  # and with it Polars, which a worker that writes no tables does not need

    rows = tables.boolean(bool(found)) if isinstance(found, QueryBoolean) else found
    (tables.write_arrow if table == results.ARROW else tables.write_parquet)(rows, writer, counter, most)


def _counted(triples: Iterable[Triple], counter: Counter, skolem: str, most: int) -> Iterator[Triple]:
    """The triples, blank where they were before they had a name. Raises TooLong."""
    sign = f"<{skolem}"
    for triple in triples:
        counter.rows += 1
        if most and counter.rows > most:
            raise TooLong("rows", most)
        yield unnamed(triple, skolem) if sign in str(triple) else triple


def unnamed(triple: Triple, skolem: str) -> Triple:
    """The triple with a blank node for each IRI that begins with `skolem`."""
    return Triple(_blank(triple.subject, skolem), triple.predicate, _blank(triple.object, skolem))


def _blank(term: Any, skolem: str) -> Any:
    if isinstance(term, NamedNode) and term.value.startswith(skolem):
        label = re.sub(r"[^A-Za-z0-9]", "", term.value[len(skolem) :])
        return BlankNode(f"g{label}") if label else term
    if isinstance(term, Triple):
        return unnamed(term, skolem)
    return term


def absolute(iri: str) -> bool:
    """Whether the engine takes this for an IRI that stands by itself."""
    try:
        return bool(NamedNode(iri))
    except ValueError:
        return False
