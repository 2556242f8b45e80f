"""The record of an RDF file is one subject with everything it says through blank nodes."""

from __future__ import annotations

import codecs
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from xml.parsers import expat

from pyoxigraph import BlankNode, NamedNode, Quad, RdfFormat, Triple, parse

from sources import blank
from sources.limits import Limits
from sources.record import ReadError
from sources.tables import Row

FORMATS = {
    "turtle": RdfFormat.TURTLE,
    "trig": RdfFormat.TRIG,
    "ntriples": RdfFormat.N_TRIPLES,
    "nquads": RdfFormat.N_QUADS,
    "rdfxml": RdfFormat.RDF_XML,
    "jsonld": RdfFormat.JSON_LD,
}
_BLANK = re.compile(r"_:\S+")
_LINE = re.compile(r"line (\d+)")


def rows(
    data: bytes, where: str, format: str, base: str | None, skolem: str, limits: Limits, notes: list[str]
) -> Iterator[Row]:
    """A row a subject, in order of their IRIs: key = the IRI, data = {"statements": [...]}, ground and sorted.

    Blank nodes are named `skolem` + a hash of what they say (`sources/blank.py`); one that no subject reaches is a
    record of its own. The graphs of a dataset are read as one; a note says so. No remote context is fetched.
    """
    data = data.removeprefix(codecs.BOM_UTF8)
    if format == "rdfxml":
        _check_entities(data, where, limits)
    said, refused, graphs, count = _statements(data, where, format, base, limits)
    if graphs:
        some = ", ".join(sorted(graphs)[:3])
        notes.append(f"{where}: what its {len(graphs)} named graphs say ({some}) is read as one graph")
    try:
        yield from _Subjects(said, refused, where, count, skolem, limits).rows()
    except blank.TooSymmetric as wrong:
        raise ReadError(
            where,
            f"{wrong.count} blank nodes of one cycle (one is {wrong.node}) are too alike to be told apart within "
            f"max_blank_steps ({limits.max_blank_steps})",
            "Give them IRIs.",
        ) from None


class _Subjects:
    """What each subject of a file says, itself and through blank nodes."""

    def __init__(
        self,
        said: dict[str, list[tuple[str, str]]],
        refused: dict[str, str],
        where: str,
        count: int,
        skolem: str,
        limits: Limits,
    ) -> None:
        self._said, self._refused, self._where, self._count = said, refused, where, count
        self._skolem, self._limits = skolem, limits
        self._about = {s: [(p, o, o.startswith("_:")) for p, o in said[s]] for s in said if s.startswith("_:")}
        for subject in [s for s in said if not s.startswith("_:")]:
            for _, value in said[subject]:
                if value.startswith("_:"):
                    self._about.setdefault(value, [])
        self._named, self._groups = blank.names(self._about, self._mint, limits.max_blank_steps)
        self._reached: set[str] = set()
        self._total = 0

    def rows(self) -> Iterator[Row]:
        """One for each IRI, then one for each blank node that nothing else reaches."""
        for subject in sorted(s for s in self._said if not s.startswith("_:")):
            yield self._row(subject, [subject])
        loose: dict[str, Row] = {}
        for group in reversed(self._groups):  # what points comes before what it points at
            if group[0] not in self._reached:
                row = self._row(group[0], group)
                loose[row[1] or ""] = row
        for key in sorted(loose):
            yield loose[key]

    def _row(self, subject: str, cycle: list[str]) -> Row:
        nodes = self._closure(subject)
        self._reached.update(nodes)
        names = self._named
        unnamed = [node for node in nodes if node.startswith("_:") and node not in names]
        if unnamed:
            pointers: dict[str, list[str]] = {}
            for predicate, value in () if subject.startswith("_:") else self._said[subject]:
                pointers.setdefault(value, []).append(f"{subject} {predicate}")
            steps = self._limits.max_blank_steps
            names = {
                **{node: names[node] for node in nodes if node in names},
                **blank.names_within(unnamed, pointers, self._about, names, self._mint, steps),
            }
        statements = {
            f"{names.get(node, node)} {predicate} {names.get(value, value)}"
            for node in nodes
            for predicate, value in self._said.get(node, ())
        }
        self._total += len(statements)
        if self._total > self._limits.max_statements:
            raise ReadError(
                self._where,
                f"its {self._count} statements are more than max_statements ({self._limits.max_statements}) when blank "
                "nodes are counted once for each subject that reaches them",
                "Give shared blank nodes IRIs, or raise max_statements under [limits].",
            )
        key = min(names.get(node, node) for node in cycle)
        problem = next((self._refused[node] for node in sorted(nodes) if node in self._refused), "")
        return f" {key}", key[1:-1], {"statements": sorted(statements)}, problem

    def _closure(self, subject: str) -> set[str]:
        seen, todo = {subject}, [subject]
        while todo:
            for _, value in self._said.get(todo.pop(), ()):
                if value.startswith("_:") and value not in seen:
                    seen.add(value)
                    todo.append(value)
        return seen

    def _mint(self, hashed: str) -> str:
        return f"<{self._skolem}{hashed}>"


def _statements(
    data: bytes, where: str, format: str, base: str | None, limits: Limits
) -> tuple[dict[str, list[tuple[str, str]]], dict[str, str], set[str], int]:
    """What each subject says as N-Triples text, why some cannot be used, the named graphs, the number of quads."""
    said: dict[str, list[tuple[str, str]]] = defaultdict(list)
    refused: dict[str, str] = {}
    graphs: set[str] = set()
    count = 0
    try:
        quad: Quad
        for quad in parse(data, format=FORMATS[format], base_iri=base):
            count += 1
            subject, value = quad.subject, quad.object
            key = str(subject)
            if isinstance(value, Triple) or isinstance(subject, Triple):
                refused[key] = f"{quad.predicate} has a triple as its value, which a fact cannot have."
                said.setdefault(key, [])
                continue
            said[key].append((sys.intern(str(quad.predicate)), str(value)))
            graph = quad.graph_name
            if isinstance(graph, (NamedNode, BlankNode)):
                graphs.add(str(graph))
            if count > limits.max_statements:
                raise ReadError(
                    where, f"makes more than max_statements ({limits.max_statements}) statements", "Split it."
                )
    except SyntaxError as wrong:
        raise _broken(where, wrong, base) from None
    return said, refused, graphs, count


def _broken(where: str, wrong: SyntaxError, base: str | None) -> ReadError:
    text = str(wrong.msg)
    found = _LINE.search(text)
    line = wrong.lineno or (int(found.group(1)) if found else None)
    place = where if line is None else f"{where}:{line}"
    if "LoadDocumentCallback" in text:
        return ReadError(
            where, "names a JSON-LD context by URL, and contexts are never fetched", "Write the context into the file."
        )
    hint = ""
    if "No scheme found" in text:
        hint = "A relative IRI needs @base in the file."
    elif "nexpected end" in text:
        hint = "Is it half-written?"
    return ReadError(place, f"is not RDF: {re.sub(r'^Parser error [^:]*: ', '', text).rstrip('.')}", hint)


def _check_entities(data: bytes, where: str, limits: Limits) -> None:
    """Let expat, which stops an entity bomb by its amplification, read RDF/XML first.

    oxrdfxml 0.2 expands entities without a bound: ten nested ones of ten each take a minute and a gigabyte.
    """
    parser = expat.ParserCreate()
    depth = 0
    declared: dict[str, int] = {}

    def entity(name: str, is_parameter: bool, value: str | None, *_: object) -> None:
        # `<!ENTITY owl "http://...">` is how many ontologies are written; an entity made of entities is not.
        if value is None or is_parameter or "&" in value or len(value) > 4096:
            line = parser.CurrentLineNumber
            raise ReadError(f"{where}:{line}", f"declares the entity '{name}', which would expand", "Write it out.")
        declared[name] = len(value)

    def start(name: str, _: object) -> None:
        nonlocal depth
        depth += 1
        if depth > limits.max_depth:
            raise ReadError(
                f"{where}:{parser.CurrentLineNumber}",
                f"nests deeper than max_depth ({limits.max_depth})",
                "Raise max_depth under [limits].",
            )

    def end(_: str) -> None:
        nonlocal depth
        depth -= 1

    parser.EntityDeclHandler, parser.StartElementHandler, parser.EndElementHandler = entity, start, end
    try:
        parser.Parse(data, True)
    except expat.ExpatError as wrong:
        problem = expat.errors.messages and expat.ErrorString(wrong.code)
        raise ReadError(f"{where}:{wrong.lineno}", f"is not XML: {problem}", "Is it half-written?") from None
    if declared:
        longest = max(declared.values())
        if longest * data.count(b"&") > limits.max_document_bytes:
            raise ReadError(f"{where}:1", "its entities would expand over max_document_bytes", "Write them out.")
