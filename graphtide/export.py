"""An export is the graph as other tools read it: every quad and who said it, or nodes and edges."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any
from xml.sax.saxutils import escape, quoteattr

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, RdfFormat, serialize

RDF_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
FORMATS = ("trig", "nquads", "graphml")

Match = Callable[..., Iterator[Quad]]


def write(match: Match, path: Path, format: str, *, system: str = "") -> None:
    """What `match(s, p, o, graph)` gives, as a new file, whole or not at all, without the graphs under `system`."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as out:
        try:
            if format == "graphml":
                _graphml(match, out)
            else:
                kept = (
                    quad
                    for quad in match(None, None, None, None)
                    if not (
                        system and isinstance(quad.graph_name, NamedNode) and quad.graph_name.value.startswith(system)
                    )
                )
                serialize(kept, out, RdfFormat.TRIG if format == "trig" else RdfFormat.N_QUADS)
            out.flush()
            os.fchmod(out.fileno(), 0o644)
            os.replace(out.name, path)
        except BaseException:
            os.unlink(out.name)
            raise


def to_stdout(dir: str, format: str, *, everything: bool = False) -> None:
    """The export of a folder's graph on standard output."""
    from .engine import connect

    with tempfile.TemporaryDirectory(prefix="graphtide-export-") as folder:
        engine = connect(dir)
        try:
            path = engine.export(format, Path(folder) / f"graph.{format}", everything=everything)
        finally:
            engine.close()
        with open(path, "rb") as exported:
            shutil.copyfileobj(exported, sys.stdout.buffer)
        sys.stdout.flush()


def _graphml(match: Match, out: IO[bytes]) -> None:
    """GraphML of the default graph: a node an IRI, its literals as data, an edge for each statement between IRIs."""
    default = DefaultGraph()
    keys: dict[str, str] = {}
    subjects: dict[Any, None] = {}
    for quad in match(None, None, None, default):
        subjects.setdefault(quad.subject)
        if isinstance(quad.object, Literal) or quad.predicate.value == RDF_TYPE:
            keys.setdefault(quad.predicate.value, "")
    _name_keys(keys)

    def put(text: str) -> None:
        out.write(text.encode("utf-8"))

    put('<?xml version="1.0" encoding="UTF-8"?>\n<graphml xmlns="http://graphml.graphdrawing.org/xmlns">\n')
    put('  <key id="predicate" for="edge" attr.name="predicate" attr.type="string"/>\n')
    put('  <key id="label" for="edge" attr.name="label" attr.type="string"/>\n')
    for iri, name in keys.items():
        put(f'  <key id={quoteattr(name)} for="node" attr.name={quoteattr(name)} attr.type="string">')
        put(f"<desc>{escape(_xml(iri))}</desc></key>\n")
    put('  <graph id="default" edgedefault="directed">\n')
    leaves: dict[str, None] = {}
    for subject in subjects:
        data: dict[str, list[str]] = {}
        edges: list[tuple[str, str]] = []
        for quad in match(subject, None, None, default):
            if quad.predicate.value in keys and (isinstance(quad.object, Literal) or quad.predicate.value == RDF_TYPE):
                data.setdefault(keys[quad.predicate.value], []).append(_value(quad.object))
            if not isinstance(quad.object, Literal) and quad.predicate.value != RDF_TYPE:
                edges.append((quad.predicate.value, str(quad.object)))
                if quad.object not in subjects:
                    leaves.setdefault(str(quad.object))
        put(f"    <node id={_id(str(subject))}>")
        for name in sorted(data):
            put(f"<data key={quoteattr(name)}>{escape(_xml('; '.join(sorted(data[name]))))}</data>")
        put("</node>\n")
        for predicate, target in sorted(edges):
            put(f"    <edge source={_id(str(subject))} target={_id(target)}>")
            put(f'<data key="predicate">{escape(_xml(predicate))}</data>')
            put(f'<data key="label">{escape(_xml(_local(predicate)))}</data></edge>\n')
    for leaf in leaves:
        put(f"    <node id={_id(leaf)}/>\n")
    put("  </graph>\n</graphml>\n")


def _name_keys(keys: dict[str, str]) -> None:
    taken = {"predicate", "label"}
    for iri in sorted(keys):
        name = _local(iri)
        keys[iri] = name if name not in taken else iri
        taken.add(name)


def _local(iri: str) -> str:
    return iri.rstrip("/#").rpartition("#" if "#" in iri else "/")[2] or iri


def _value(term: Any) -> str:
    return str(getattr(term, "value", term))


def _id(term: str) -> str:
    return quoteattr(_xml(term[1:-1] if term.startswith("<") else term))


def _xml(text: str) -> str:
    # XML 1.0 has no place for most control characters, not even escaped.
    return "".join(c if c in "\t\n\r" or ord(c) >= 0x20 and ord(c) not in (0xFFFE, 0xFFFF) else "\ufffd" for c in text)
