"""The record of an RDF file is one subject with everything it says through blank nodes."""

from __future__ import annotations

import re
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
    if format == "rdfxml":
        _check_entities(data, where, limits)
    said, refused, graphs, count = _statements(data, where, format, base, limits)
    if graphs:
        some = ", ".join(sorted(graphs)[:3])
        notes.append(f"{where}: what its {len(graphs)} named graphs say ({some}) is read as one graph")
    about = {
        subject: [(p, o, o.startswith("_:")) for p, o in pairs]
        for subject, pairs in said.items()
        if subject.startswith("_:")
    }
    try:
        named = blank.names(about, lambda hashed: f"<{skolem}{hashed}>", limits.max_blank_steps)
    except blank.TooSymmetric as wrong:
        raise ReadError(
            where,
            f"{wrong.count} blank nodes of one cycle (one is {wrong.node}) are too alike to be told apart within "
            f"max_blank_steps ({limits.max_blank_steps})",
            "Give them IRIs.",
        ) from None
    for pairs in said.values():
        for _, value in pairs:
            if value.startswith("_:") and value not in named:
                named[value] = f"<{skolem}{blank.empty()}>"
    yield from _closures(said, named, refused, where, count, limits)


def _closures(
    said: dict[str, list[tuple[str, str]]],
    named: dict[str, str],
    refused: dict[str, str],
    where: str,
    count: int,
    limits: Limits,
) -> Iterator[Row]:
    ground = {
        subject: [f"{named.get(subject, subject)} {p} {named.get(o, o)}" for p, o in pairs]
        for subject, pairs in said.items()
    }
    links = {s: {o for _, o in pairs if o.startswith("_:")} for s, pairs in said.items()}
    reached: set[str] = set()
    total = 0

    def closure(subject: str) -> set[str]:
        seen, todo = {subject}, [subject]
        while todo:
            for other in links.get(todo.pop(), ()):
                if other not in seen:
                    seen.add(other)
                    todo.append(other)
        return seen

    def record(subject: str) -> Row:
        nonlocal total
        nodes = closure(subject)
        reached.update(nodes)
        statements = {line for node in nodes for line in ground.get(node, ())}
        total += len(statements)
        if total > limits.max_statements:
            raise ReadError(
                where,
                f"its {count} statements are more than max_statements ({limits.max_statements}) when blank nodes are "
                "counted once for each subject that reaches them",
                "Give shared blank nodes IRIs, or raise max_statements under [limits].",
            )
        key = named.get(subject, subject)[1:-1]
        problem = next((refused[node] for node in sorted(nodes) if node in refused), "")
        return f" <{key}>", key, {"statements": sorted(statements)}, problem

    for subject in sorted(s for s in said if not s.startswith("_:")):
        yield record(subject)
    # What no IRI reaches: each blank node that no other one reaches, then one of each cycle that is left.
    loose = {s for s in said if s.startswith("_:")} - reached
    pointed = {o for s in loose for o in links[s] if o != s}
    emitted: set[str] = set()
    for subject in sorted(loose - pointed, key=named.__getitem__) + sorted(loose & pointed, key=named.__getitem__):
        if subject in reached or named[subject] in emitted:
            continue
        emitted.add(named[subject])
        yield record(subject)


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
            said[key].append((str(quad.predicate), str(value)))
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
