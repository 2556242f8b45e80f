"""An expression is read by binding strength in one loop, so that a chain of any length is one node and no recursion."""

from __future__ import annotations

from sparql.syntax import patterns
from sparql.syntax.tokens import Scanner
from sparql.syntax.tree import (
    Aggregate,
    And,
    Arithmetic,
    Builtin,
    Call,
    Compare,
    Exists,
    Expression,
    In,
    Iri,
    Or,
    Unary,
    Var,
)
from sparql.syntax.triples import iri, literal, triple_term

ANY = 10_000
# Every function of SPARQL 1.1 and 1.2 (ADJUST is of SEP-0002), with how many arguments it may take.
ONE = """
    STR LANG DATATYPE IRI URI ABS CEIL FLOOR ROUND STRLEN UCASE LCASE ENCODE_FOR_URI YEAR MONTH DAY HOURS MINUTES
    SECONDS TIMEZONE TZ MD5 SHA1 SHA256 SHA384 SHA512 ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC BOUND LANGDIR HASLANG
    HASLANGDIR ISTRIPLE SUBJECT PREDICATE OBJECT
"""
TWO = """
    LANGMATCHES CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER STRLANG STRDT SAMETERM SAMEVALUE
"""
FUNCTIONS: dict[str, tuple[int, int]] = {
    **dict.fromkeys(ONE.split(), (1, 1)),
    **dict.fromkeys(TWO.split(), (2, 2)),
    **dict.fromkeys(("RAND", "NOW", "UUID", "STRUUID"), (0, 0)),
    **dict.fromkeys(("IF", "STRLANGDIR", "TRIPLE"), (3, 3)),
    **dict.fromkeys(("CONCAT", "COALESCE"), (0, ANY)),
    **{"BNODE": (0, 1), "SUBSTR": (2, 3), "REGEX": (2, 3), "REPLACE": (3, 4), "ADJUST": (1, 2)},
}
AGGREGATES = frozenset(["COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT"])

WRONG_SIGNS = {
    "==": ". Equality is one =",
    "<>": ". Inequality is !=",
    "=>": ". At least is >=",
    "=<": ". At most is <=",
}

OR, AND, RELATION, SUM, PRODUCT = range(1, 6)
_STRENGTH = {
    "||": OR,
    "&&": AND,
    **dict.fromkeys(("=", "!=", "<", ">", "<=", ">=", "IN", "NOT", "NOTIN"), RELATION),
    **dict.fromkeys("+-", SUM),
    **dict.fromkeys("*/", PRODUCT),
}


def expression(s: Scanner, least: int = OR) -> Expression:
    """An expression whose operators bind at least as strongly as `least`."""
    start = s.start
    left = _unary(s)
    while True:
        strength = _STRENGTH.get(s.kind) or _STRENGTH.get(s.operator(), 0)
        if strength < least or not strength:
            return left
        if strength == OR:
            operands = [left]
            while s.take("||"):
                s.link()
                operands.append(expression(s, AND))
                s.operator()
            left = Or(tuple(operands), (start, s.last))
        elif strength == AND:
            operands = [left]
            while s.take("&&"):
                s.link()
                operands.append(expression(s, RELATION))
                s.operator()
            left = And(tuple(operands), (start, s.last))
        elif strength == RELATION:
            left = _relation(s, left, start)
            if _STRENGTH.get(s.operator(), 0) == RELATION:
                s.fail("comparisons do not chain: join them with &&")
        else:
            rest = []
            while _STRENGTH.get(s.operator(), 0) == strength:
                sign = s.kind
                s.next()
                s.link()
                rest.append((sign, expression(s, PRODUCT) if strength == SUM else _unary(s)))
            left = Arithmetic(left, tuple(rest), (start, s.last))


def _relation(s: Scanner, left: Expression, start: int) -> Expression:
    sign = s.kind
    s.next()
    if sign in ("IN", "NOT", "NOTIN"):
        if sign == "NOT":
            s.expect("IN", "behind NOT")
        if s.kind != "(":
            s.fail("expected ( behind IN")
        s.enter()
        items = arguments(s)
        s.leave()
        return In(left, items, sign != "IN", (start, s.last))
    return Compare(sign, left, expression(s, SUM), (start, s.last))


def _unary(s: Scanner) -> Expression:
    """A value with the signs before it, a call, or an expression in brackets."""
    start, kind = s.start, s.kind
    if kind == "var":
        found: Expression = Var(s.value[1:], (start, s.end))
        s.next()
        return found
    if kind in ("string", "number", "long", "TRUE", "FALSE"):
        return literal(s)
    if kind == "(":
        return bracketed(s)
    if kind in ("pname", "iri"):
        name = iri(s, "")
        return _call(s, name) if s.kind == "(" else name
    if kind in ("!", "+", "-"):
        s.next()
        s.enter()
        operand = _unary(s)
        s.leave()
        return Unary(kind, operand, (start, s.last))
    if kind == "<<(":
        return triple_term(s, expression=True)
    return builtin(s)


def bracketed(s: Scanner) -> Expression:
    """( expression )"""
    s.expect("(", "before an expression")
    s.enter()
    found = expression(s)
    s.leave()
    s.expect(")", "after the expression")
    return found


def constraint(s: Scanner, what: str) -> Expression:
    """What FILTER, HAVING and ORDER BY take without more ado: brackets, or a call."""
    if s.kind == "(":
        return bracketed(s)
    if s.kind in ("pname", "iri"):
        name = iri(s, "")
        if s.kind != "(":
            s.fail("expected ( as this is called as a function")
        return _call(s, name)
    if not is_builtin(s.kind):
        s.fail(f"expected ( or a function behind {what}")
    return builtin(s)


def is_builtin(kind: str) -> bool:
    """Whether this word begins a call."""
    return kind in FUNCTIONS or kind in AGGREGATES or kind in ("EXISTS", "NOT")


def arguments(s: Scanner) -> tuple[Expression, ...]:
    """( expression, ... ), or ()."""
    s.expect("(", "before arguments")
    found = []
    if s.kind != ")":
        found.append(expression(s))
        while s.take(","):
            found.append(expression(s))
    s.expect(")", "after the arguments")
    return tuple(found)


def _call(s: Scanner, name: Iri) -> Call:
    s.enter()
    s.next()
    distinct = s.take("DISTINCT")
    found = []
    if s.kind != ")" or distinct:
        found.append(expression(s))
        while s.take(","):
            found.append(expression(s))
    s.leave()
    s.expect(")", "after the arguments")
    return Call(name, tuple(found), distinct, (name.span[0], s.last))


def builtin(s: Scanner) -> Expression:
    """A function of the language, an aggregate, EXISTS or NOT EXISTS."""
    start, name = s.start, s.kind
    if name in FUNCTIONS:
        s.next()
        if s.kind != "(":
            s.fail(f"expected ( behind {name}")
        s.enter()
        given = arguments(s)
        s.leave()
        fewest, most = FUNCTIONS[name]
        if not fewest <= len(given) <= most:
            wants = f"{fewest}" if fewest == most else f"{fewest} to {most}"
            has = f"{'is' if len(given) == 1 else 'are'} {len(given)}"
            s.stop(
                f"{name} takes {wants} argument{'s' * (wants != '1')}, and here {has}.",
                start=start,
            )
        if name == "BOUND" and not isinstance(given[0], Var):
            s.stop("BOUND takes a variable.", start=start)
        return Builtin(name, given, (start, s.last))
    if name in AGGREGATES:
        return _aggregate(s)
    if name == "EXISTS" or name == "NOT":
        s.next()
        s.link()
        if name == "NOT":
            s.expect("EXISTS", "behind NOT")
        s.enter()
        group = patterns.exists(s)
        s.leave()
        return Exists(group, name == "NOT", (start, s.last))
    s.fail("expected a value, a variable or a function" + WRONG_SIGNS.get(s.text[s.start - 1 : s.start + 1], ""))


def _aggregate(s: Scanner) -> Aggregate:
    start, name = s.start, s.kind
    if not s.aggregates:
        s.stop(f"{name} counts over a group: it stands in SELECT, HAVING or ORDER BY, not here.")
    s.scoped = True
    s.next()
    if s.kind != "(":
        s.fail(f"expected ( behind {name}")
    s.enter()
    s.next()
    distinct = s.take("DISTINCT")
    operand = None
    if name == "COUNT" and s.kind == "*":
        s.next()
    else:
        operand = expression(s)
    separator = None
    if name == "GROUP_CONCAT" and s.take(";"):
        s.expect("SEPARATOR", "behind ;")
        s.expect("=", "behind SEPARATOR")
        if s.kind not in ("string", "long"):
            s.fail("expected a string as separator")
        separator = s.string()
        s.next()
    s.leave()
    s.expect(")", f"after what {name} counts")
    return Aggregate(name, operand, distinct, separator, (start, s.last))
