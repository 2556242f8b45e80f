"""An update is operations between semicolons; what each may not hold is said where it stands."""

from __future__ import annotations

from sparql.syntax import patterns
from sparql.syntax.queries import dataset
from sparql.syntax.tokens import Scanner
from sparql.syntax.tree import (
    Annotated,
    BlankNode,
    Clear,
    Collection,
    Create,
    DeleteData,
    DeleteWhere,
    Described,
    InsertData,
    Iri,
    Load,
    Modify,
    Operation,
    Quads,
    ReifiedTriple,
    Transfer,
    Var,
    walk,
)
from sparql.syntax.triples import iri, quads

VERBS = ("INSERT", "DELETE", "LOAD", "CLEAR", "CREATE", "DROP", "COPY", "MOVE", "ADD", "WITH")


def operation(s: Scanner) -> Operation:
    """One operation; the current token is one of VERBS."""
    start, kind = s.start, s.kind
    s.links = 0
    s.next()
    if kind == "INSERT" and s.take("DATA"):
        # Labels of one INSERT DATA name nodes of that one only.
        s.labels = set()
        found = quads(s)
        s.spent |= s.labels
        s.labels = set()
        _without(s, found, "INSERT DATA", variables=True)
        return InsertData(found, (start, s.last))
    if kind == "DELETE" and s.take("DATA"):
        found = quads(s)
        _without(s, found, "DELETE DATA", variables=True, blanks=True)
        return DeleteData(found, (start, s.last))
    if kind == "DELETE" and s.take("WHERE"):
        found = quads(s)
        _without(s, found, "DELETE WHERE", blanks=True)
        return DeleteWhere(found, (start, s.last))
    if kind in ("INSERT", "DELETE", "WITH"):
        return _modify(s, start, kind)
    silent = s.take("SILENT")
    if kind == "LOAD":
        source = iri(s, "behind LOAD")
        into = _graph(s) if s.take("INTO") else None
        return Load(source, into, silent, (start, s.last))
    if kind in ("CLEAR", "DROP"):
        target: Iri | str
        if s.kind in ("DEFAULT", "NAMED", "ALL"):
            target = s.kind
            s.next()
        elif s.kind == "GRAPH":
            target = _graph(s)
        else:
            s.fail(f"expected GRAPH <...>, DEFAULT, NAMED or ALL behind {kind}")
        return Clear(kind, target, silent, (start, s.last))
    if kind == "CREATE":
        return Create(_graph(s), silent, (start, s.last))
    source_graph = _graph_or_default(s)
    s.expect("TO", f"between the graphs of {kind}")
    return Transfer(kind, source_graph, _graph_or_default(s), silent, (start, s.last))


def _graph(s: Scanner) -> Iri:
    s.expect("GRAPH", "before the IRI of a graph")
    return iri(s, "of a graph")


def _graph_or_default(s: Scanner) -> Iri | None:
    if s.take("DEFAULT"):
        return None
    s.take("GRAPH")
    return iri(s, "of a graph, or DEFAULT")


def _modify(s: Scanner, start: int, kind: str) -> Modify:
    graph = None
    if kind == "WITH":
        graph = iri(s, "of a graph behind WITH")
        kind = s.kind
        if kind not in ("INSERT", "DELETE"):
            s.fail("expected DELETE or INSERT behind WITH <...>")
        s.next()
    delete: Quads | None = None
    insert: Quads | None = None
    spent = s.spent
    s.labels, s.spent = set(), set()
    if kind == "DELETE":
        delete = quads(s)
        _without(s, delete, "DELETE", blanks=True)
        if s.take("INSERT"):
            insert = quads(s)
    else:
        insert = quads(s)
    # A label in a template makes a node for each row, in the pattern it is a variable: they are not the same.
    s.labels, s.spent = set(), set()
    using = dataset(s, "USING")
    if s.kind != "WHERE":
        s.fail("expected WHERE and a pattern, or DATA behind INSERT or DELETE")
    s.next()
    where = patterns.group(s)
    s.labels, s.spent = set(), spent
    return Modify(graph, delete, insert, using, where, (start, s.last))


def _without(s: Scanner, found: Quads, where: str, *, variables: bool = False, blanks: bool = False) -> None:
    """Raise where a variable or a blank node stands in what may not hold it."""
    for node in walk(found):
        if variables and isinstance(node, Var):
            s.stop(
                f"{where} holds facts, and ?{node.name} is a variable: "
                f"write {where.split()[0]} {{ ... }} WHERE {{ ... }}.",
                start=node.span[0],
            )
        if blanks and _blank(node):
            s.stop(
                f"{where} cannot name a blank node: use a variable in DELETE {{ ... }} WHERE {{ ... }}.",
                start=node.span[0],  # type: ignore[attr-defined]
            )


def _blank(node: object) -> bool:
    return (
        isinstance(node, (BlankNode, Described))
        or (isinstance(node, Collection) and bool(node.items))
        or (isinstance(node, ReifiedTriple) and node.reifier is None)
        or (isinstance(node, Annotated) and any(one.reifier is None for one in node.annotations))
    )
