"""A group is a list of what stands in it; what that means for its variables is judged afterwards, in scope."""

from __future__ import annotations

from sparql.syntax import expressions, queries
from sparql.syntax.tokens import Scanner
from sparql.syntax.tree import (
    Bind,
    Element,
    Filter,
    Graph,
    Group,
    Lateral,
    Minus,
    Optional,
    Service,
    Term,
    Union,
    Values,
    Var,
    walk,
)
from sparql.syntax.triples import TERM, iri, literal, triple_term, triples, var, var_or_iri


def group(s: Scanner) -> Group:
    """{ ... }"""
    start = s.start
    s.expect("{", "before a pattern")
    s.enter()
    _other_labels(s)
    elements: list[Element] = []
    if s.kind == "SELECT":
        elements.append(queries.sub_select(s))
        if s.kind != "}":
            s.fail("expected } after a SELECT in a pattern: put it in { } of its own")
    else:
        dotted = False
        while s.kind != "}":
            if s.kind in TERM:
                if elements and not dotted:
                    s.fail("expected . between two triples")
                elements.append(triples(s, path=True))
                dotted = s.take(".")
            else:
                elements.append(_element(s))
                # One full stop may follow, and need not.
                s.take(".")
                dotted = True
    _other_labels(s)
    s.leave()
    s.next()
    return Group(tuple(elements), (start, s.last))


def exists(s: Scanner) -> Group:
    """The group of EXISTS: FILTER does not end the basic pattern it stands in."""
    labels, aggregates = s.labels, s.aggregates
    s.spent |= labels
    s.labels, s.aggregates = set(), False
    found = group(s)
    s.spent -= labels
    s.labels, s.aggregates = labels, aggregates
    return found


def _other_labels(s: Scanner) -> None:
    if s.labels:
        s.spent |= s.labels
        s.labels = set()


def _element(s: Scanner) -> Element:
    """Whatever stands in a group and is no triple."""
    s.link()
    start, kind = s.start, s.kind
    if kind == "{":
        first = group(s)
        if s.kind != "UNION":
            return first
        groups = [first]
        while s.take("UNION"):
            s.link()
            groups.append(group(s))
        return Union(tuple(groups), (start, s.last))
    if kind == "OPTIONAL":
        s.next()
        return Optional(group(s), (start, s.last))
    if kind == "FILTER":
        s.next()
        return Filter(expressions.constraint(s, "FILTER"), (start, s.last))
    if kind == "BIND":
        s.scoped = True
        s.next()
        s.expect("(", "behind BIND")
        value = expressions.expression(s)
        s.expect("AS", "and a variable in BIND(expression AS ?variable)")
        name = var(s, "behind AS")
        s.expect(")", "after BIND")
        return Bind(value, name, (start, s.last))
    if kind == "VALUES":
        return values(s)
    if kind == "MINUS":
        s.next()
        return Minus(group(s), (start, s.last))
    if kind == "GRAPH":
        s.next()
        name_of = var_or_iri(s, "behind GRAPH")
        return Graph(name_of, group(s), (start, s.last))
    if kind == "SERVICE":
        s.next()
        silent = s.take("SILENT")
        name_of = var_or_iri(s, "behind SERVICE")
        return Service(name_of, group(s), silent, (start, s.last))
    if kind == "LATERAL":
        s.next()
        return Lateral(group(s), (start, s.last))
    if kind == "SELECT":
        s.fail("expected { before a SELECT in a pattern: put it in { } of its own")
    if s.kind in expressions.FUNCTIONS:
        s.fail(f"expected FILTER, as in FILTER {s.value}(...), or BIND({s.value}(...) AS ?variable)")
    s.unknown_word("expected a triple, a pattern such as OPTIONAL or FILTER, or }", WORDS)


WORDS = ("OPTIONAL", "FILTER", "BIND", "VALUES", "MINUS", "GRAPH", "SERVICE", "UNION", "LATERAL")


def values(s: Scanner) -> Values:
    """VALUES with its rows, each as long as there are variables."""
    start = s.start
    s.next()
    rows: list[tuple[Term | None, ...]] = []
    if s.kind == "var":
        names = (var(s, ""),)
        s.expect("{", "before the values")
        while s.kind != "}":
            rows.append((_datum(s),))
        s.next()
        return Values(names, tuple(rows), True, (start, s.last))
    s.expect("(", "or a variable behind VALUES")
    found = []
    seen = set()
    while s.kind != ")":
        one = var(s, "in VALUES ( )")
        if one.name in seen:
            s.stop(f"?{one.name} stands twice in these VALUES.", start=one.span[0])
        seen.add(one.name)
        found.append(one)
    s.next()
    s.expect("{", "before the rows")
    while s.kind != "}":
        began = s.start
        s.expect("(", "before a row, or } after the last one")
        row = []
        while s.kind != ")":
            row.append(_datum(s))
        s.next()
        if len(row) != len(found):
            s.stop(f"This row has {len(row)} values for {len(found)} variables. Write UNDEF for none.", start=began)
        rows.append(tuple(row))
    s.next()
    return Values(tuple(found), tuple(rows), False, (start, s.last))


def _datum(s: Scanner) -> Term | None:
    kind = s.kind
    if kind == "UNDEF":
        s.next()
        return None
    if kind in ("pname", "iri"):
        return iri(s, "")
    if kind in ("string", "long", "number", "TRUE", "FALSE"):
        return literal(s)
    if kind == "<<(":
        found = triple_term(s, expression=True)
        if has_variable(found):
            s.stop("A triple term in VALUES holds no variable.", start=found.span[0])
        return found
    s.fail("expected a value: an IRI, a literal or UNDEF" + ", and only space between them" * (kind == ","))


def has_variable(node: object) -> bool:
    """Whether a variable stands anywhere in it."""
    return any(isinstance(one, Var) for one in walk(node))
