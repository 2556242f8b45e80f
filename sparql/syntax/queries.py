"""A query is its form, its dataset, one pattern and what is done with the pattern's rows."""

from __future__ import annotations

from sparql.syntax import expressions, patterns
from sparql.syntax.tokens import Scanner
from sparql.syntax.tree import (
    As,
    Ask,
    Construct,
    Describe,
    Expression,
    From,
    Group,
    Modifiers,
    Order,
    Prologue,
    Query,
    Select,
    SubSelect,
    Triples,
    Values,
    Var,
)
from sparql.syntax.triples import iri, template, var, var_or_iri

FORMS = ("SELECT", "CONSTRUCT", "DESCRIBE", "ASK")


def query(s: Scanner, prologue: Prologue) -> Query:
    """A whole query behind its prologue."""
    start, kind = s.start, s.kind
    where: Group | None = None
    form: Select | Construct | Describe | Ask
    if kind == "SELECT":
        form = _select(s)
        sources = dataset(s, "FROM")
        where = _where(s)
    elif kind == "ASK":
        s.next()
        form = Ask((start, s.last))
        sources = dataset(s, "FROM")
        where = _where(s)
    elif kind == "DESCRIBE":
        s.next()
        form = _describe(s, start)
        sources = dataset(s, "FROM")
        if s.kind in ("WHERE", "{"):
            where = _where(s)
    else:
        s.next()
        if s.kind == "{":
            form = Construct(_template(s), (start, s.last))
            sources = dataset(s, "FROM")
            where = _where(s)
        else:
            form = Construct(None, (start, s.last))
            sources = dataset(s, "FROM")
            s.expect("WHERE", "or { behind CONSTRUCT")
            began = s.start
            where = Group(_template(s), (began, s.last))
    modifiers = _modifiers(s)
    rows = _values(s)
    if s.kind != "end":
        if s.kind == ";":
            s.fail("expected the end of the query, and a query has no ; behind it")
        s.unknown_word("expected the end of the query", ENDS)
    return Query(prologue, form, sources, where, modifiers, rows, (start, s.last))


ENDS = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES")


def sub_select(s: Scanner) -> SubSelect:
    """A SELECT that is a pattern."""
    start = s.start
    select = _select(s)
    where = _where(s)
    modifiers = _modifiers(s)
    return SubSelect(select, where, modifiers, _values(s), (start, s.last))


def _select(s: Scanner) -> Select:
    start = s.start
    s.next()
    kind = ""
    if s.kind in ("DISTINCT", "REDUCED"):
        kind = s.kind
        s.next()
    if s.take("*"):
        return Select(None, kind, (start, s.last))
    items: list[Var | As] = []
    while True:
        if s.kind == "var":
            items.append(Var(s.value[1:], (s.start, s.end)))
            s.next()
        elif s.kind == "(":
            items.append(_as(s))
        elif items and s.kind == ",":
            s.fail("expected only space between the variables of SELECT")
        elif items:
            return Select(tuple(items), kind, (start, s.last))
        else:
            if expressions.is_builtin(s.kind):
                s.fail(f"expected brackets around it, as in SELECT ({s.value}(...) AS ?name)")
            s.fail("expected a variable, (expression AS ?variable) or * behind SELECT")


def _as(s: Scanner) -> As:
    """(expression AS ?variable) of SELECT."""
    start = s.start
    s.scoped = True
    s.link()
    s.next()
    found = aggregated(s)
    s.expect("AS", "and a variable in (expression AS ?variable)")
    name = var(s, "behind AS")
    s.expect(")", f"after AS ?{name.name}")
    return As(found, name, (start, s.last))


def aggregated(s: Scanner) -> Expression:
    """An expression in which aggregates may stand."""
    before, s.aggregates = s.aggregates, True
    found = expressions.expression(s)
    s.aggregates = before
    return found


def _template(s: Scanner) -> tuple[Triples, ...]:
    s.expect("{", "before triples")
    found = template(s)
    s.expect("}", "after the triples")
    return found


def _describe(s: Scanner, start: int) -> Describe:
    if s.take("*"):
        return Describe(None, (start, s.last))
    terms = [var_or_iri(s, "or * behind DESCRIBE")]
    while s.kind in ("var", "pname", "iri"):
        terms.append(var_or_iri(s, ""))
    return Describe(tuple(terms), (start, s.last))


def dataset(s: Scanner, word: str) -> tuple[From, ...]:
    """FROM clauses, or USING clauses."""
    found = []
    while s.kind == word:
        start = s.start
        s.next()
        named = s.take("NAMED")
        found.append(From(iri(s, f"of a graph behind {word}"), named, (start, s.last)))
    return tuple(found)


def _where(s: Scanner) -> Group:
    s.take("WHERE")
    if s.kind != "{":
        if s.kind == "AS":
            s.fail("expected brackets around it, as in SELECT (?x AS ?name)")
        s.unknown_word("expected WHERE or {", ("WHERE", "FROM"))
    before, s.aggregates = s.aggregates, False
    found = patterns.group(s)
    s.aggregates = before
    return found


def _values(s: Scanner) -> Values | None:
    return patterns.values(s) if s.kind == "VALUES" else None


def _modifiers(s: Scanner) -> Modifiers:
    if s.kind not in ENDS or s.kind == "VALUES":
        return NONE
    start = s.start
    group_by: list[Expression | As] = []
    having: list[Expression] = []
    order_by: list[Order] = []
    limit = offset = None
    if s.take("GROUP"):
        s.expect("BY", "behind GROUP")
        s.scoped = True
        while (one := _grouping(s)) is not None:
            s.link()
            group_by.append(one)
        if not group_by:
            s.fail("expected a variable, a function or (expression) behind GROUP BY")
    before, s.aggregates = s.aggregates, True
    if s.take("HAVING"):
        while not having or s.kind in ("(", "pname", "iri") or expressions.is_builtin(s.kind):
            s.link()
            having.append(expressions.constraint(s, "HAVING"))
    if s.take("ORDER"):
        s.expect("BY", "behind ORDER")
        while (by := _ordering(s)) is not None:
            order_by.append(by)
        if not order_by:
            s.fail("expected a variable, ASC(...), DESC(...) or (expression) behind ORDER BY")
    s.aggregates = before
    while s.kind in ("LIMIT", "OFFSET"):
        word = s.kind
        if (limit if word == "LIMIT" else offset) is not None:
            s.stop(f"{word} stands here twice.")
        s.next()
        number = s.value
        if s.kind != "number" or not number.isdigit():
            s.fail(f"expected a whole number behind {word}")
        if len(number) > 19:
            s.stop(f"{word} {number[:20]}... is larger than any answer.")
        s.next()
        if word == "LIMIT":
            limit = int(number)
        else:
            offset = int(number)
    return Modifiers(tuple(group_by), tuple(having), tuple(order_by), limit, offset, (start, s.last))


NONE = Modifiers()


def _grouping(s: Scanner) -> Expression | As | None:
    start = s.start
    if s.kind == "var":
        return var(s, "")
    if s.kind == "(":
        s.next()
        found = expressions.expression(s)
        if s.take("AS"):
            name = var(s, "behind AS")
            s.expect(")", f"after AS ?{name.name}")
            return As(found, name, (start, s.last))
        s.expect(")", "or AS after the expression")
        return found
    if s.kind in ("pname", "iri") or expressions.is_builtin(s.kind):
        return expressions.constraint(s, "GROUP BY")
    return None


def _ordering(s: Scanner) -> Order | None:
    start = s.start
    if s.kind in ("ASC", "DESC"):
        descending = s.kind == "DESC"
        s.next()
        return Order(expressions.bracketed(s), descending, (start, s.last))
    if s.kind == "var":
        return Order(var(s, ""), False, (start, s.last))
    if s.kind in ("(", "pname", "iri") or expressions.is_builtin(s.kind):
        return Order(expressions.constraint(s, "ORDER BY"), False, (start, s.last))
    return None
