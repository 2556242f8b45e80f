"""What is printed reads back as the same tree: the layout is ours, the meaning the writer's."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sparql.syntax.expressions import AND, OR, PRODUCT, RELATION, SUM
from sparql.syntax.tree import (
    Aggregate,
    Alternative,
    And,
    Annotated,
    Arithmetic,
    As,
    Ask,
    Base,
    Bind,
    BlankNode,
    Builtin,
    Call,
    Clear,
    Collection,
    Compare,
    Construct,
    Create,
    DeleteData,
    DeleteWhere,
    Describe,
    Described,
    Element,
    Exists,
    Expression,
    Filter,
    From,
    Graph,
    Group,
    In,
    InsertData,
    Inverse,
    Iri,
    Lateral,
    Literal,
    Load,
    Minus,
    Modifiers,
    Modify,
    Negated,
    Operation,
    Optional,
    Or,
    Order,
    Path,
    Prefix,
    Prologue,
    Property,
    Quads,
    QuadsIn,
    Query,
    ReifiedTriple,
    Repeat,
    Select,
    Sequence,
    Service,
    SubSelect,
    Term,
    Triples,
    TripleTerm,
    Unary,
    Union,
    Update,
    Values,
    Var,
)
from sparql.syntax.triples import BOOLEAN, DECIMAL, DOUBLE, INTEGER, TYPE

# The engine reads no `e:J._K`, right as it is: such a name is written out.
_SIMPLE = re.compile(r"(?:[A-Za-z_0-9](?:[A-Za-z_0-9\-]|\.(?=[A-Za-z0-9]))*)?")
_NUMBERS = {
    INTEGER: re.compile(r"[+-]?[0-9]+"),
    DECIMAL: re.compile(r"[+-]?[0-9]*\.[0-9]+"),
    DOUBLE: re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)[eE][+-]?[0-9]+"),
    BOOLEAN: re.compile(r"true|false"),
}
_QUOTED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\b": "\\b", "\f": "\\f"}
_TO_QUOTE = re.compile(r"[\"\\\x00-\x1f\x7f]")
_INDENT = "  "
# How strongly what stands in a path binds: an alternative, a sequence, a step, one alone.
_CHOICE, _CHAIN, _STEP, _ALONE = range(4)


def text(tree: Query | Update) -> str:
    """The tree as SPARQL: `parse(text(tree)) == tree`, with IRIs short where its own prologue has a prefix for them."""
    printer = _Printer()
    return printer.query(tree) if isinstance(tree, Query) else printer.update(tree)


class _Printer:
    """Knows the prefixes declared so far. Every method returns text; `depth` is how far a line is indented."""

    def __init__(self) -> None:
        self._namespaces: dict[str, str] = {}
        self._prefixes: dict[str, str] = {}

    # --- Queries ---

    def query(self, tree: Query) -> str:
        lines = self.prologue(tree.prologue)
        form = tree.form
        if isinstance(form, Select):
            lines.append(self.select(form))
        elif isinstance(form, Ask):
            lines.append("ASK")
        elif isinstance(form, Describe):
            terms = "*" if form.terms is None else " ".join(self.term(one) for one in form.terms)
            lines.append(f"DESCRIBE {terms}")
        else:
            template = "" if form.template is None else " " + self.quads(form.template, 0)
            lines.append("CONSTRUCT" + template)
        lines += [self.source("FROM", one) for one in tree.dataset]
        if tree.where is not None:
            short = isinstance(form, Construct) and form.template is None
            lines.append("WHERE " + (self.quads(tree.where.elements, 0) if short else self.group(tree.where, 0)))  # type: ignore[arg-type]
        lines += self.tail(tree.modifiers, tree.values, 0)
        return "\n".join(lines) + "\n"

    def prologue(self, declared: Prologue) -> list[str]:
        lines = []
        for one in declared:
            if isinstance(one, Prefix):
                old = self._prefixes.get(one.name)
                if old is not None and self._namespaces.get(old) == one.name:
                    del self._namespaces[old]
                self._prefixes[one.name] = one.iri
                self._namespaces[one.iri] = one.name
                lines.append(f"PREFIX {one.name}: <{one.iri}>")
            elif isinstance(one, Base):
                lines.append(f"BASE <{one.iri}>")
            else:
                lines.append(f"VERSION {_quoted(one.value)}")
        return lines

    def source(self, word: str, one: From) -> str:
        return f"{word} {'NAMED ' if one.named else ''}{self.term(one.iri)}"

    def select(self, select: Select) -> str:
        items = "*" if select.items is None else " ".join(self.item(one) for one in select.items)
        return " ".join(filter(None, ("SELECT", select.kind, items)))

    def item(self, one: Expression | As) -> str:
        """What SELECT and GROUP BY list."""
        if isinstance(one, Var):
            return f"?{one.name}"
        if isinstance(one, As):
            return f"({self.expression(one.expression)} AS ?{one.variable.name})"
        return f"({self.expression(one)})"

    def tail(self, modifiers: Modifiers, values: Values | None, depth: int) -> list[str]:
        lines = []
        if modifiers.group_by:
            lines.append("GROUP BY " + " ".join(self.item(one) for one in modifiers.group_by))
        if modifiers.having:
            lines.append("HAVING " + " ".join(f"({self.expression(one)})" for one in modifiers.having))
        if modifiers.order_by:
            lines.append("ORDER BY " + " ".join(self.order(one) for one in modifiers.order_by))
        if modifiers.limit is not None:
            lines.append(f"LIMIT {modifiers.limit}")
        if modifiers.offset is not None:
            lines.append(f"OFFSET {modifiers.offset}")
        if values is not None:
            lines.append(self.values(values, depth))
        return lines

    def order(self, one: Order) -> str:
        if isinstance(one.expression, Var) and not one.descending:
            return f"?{one.expression.name}"
        return f"{'DESC' if one.descending else 'ASC'}({self.expression(one.expression)})"

    # --- Patterns ---

    def group(self, group: Group, depth: int) -> str:
        return self.block((self.element(one, depth + 1) for one in group.elements), depth)

    def block(self, lines: Iterable[str], depth: int) -> str:
        inside = [_INDENT * (depth + 1) + line for line in lines]
        return "\n".join(("{", *inside, _INDENT * depth + "}")) if inside else "{}"

    def element(self, element: Element, depth: int) -> str:
        if isinstance(element, Triples):
            return self.triples(element, depth)
        if isinstance(element, Filter):
            condition = element.condition
            said = self.expression(condition, depth=depth)
            return f"FILTER {said}" if isinstance(condition, (Builtin, Call, Exists)) else f"FILTER ({said})"
        if isinstance(element, Bind):
            return f"BIND ({self.expression(element.expression, depth=depth)} AS ?{element.variable.name})"
        if isinstance(element, Values):
            return self.values(element, depth)
        if isinstance(element, Group):
            return self.group(element, depth)
        if isinstance(element, Union):
            return " UNION ".join(self.group(one, depth) for one in element.groups)
        if isinstance(element, SubSelect):
            lines = [self.select(element.select), "WHERE " + self.group(element.where, depth)]
            return f"\n{_INDENT * depth}".join(lines + self.tail(element.modifiers, element.values, depth))
        inner = self.group(element.group, depth)
        if isinstance(element, Graph):
            return f"GRAPH {self.term(element.name)} {inner}"
        if isinstance(element, Service):
            return f"SERVICE {'SILENT ' if element.silent else ''}{self.term(element.name)} {inner}"
        word = {Optional: "OPTIONAL", Minus: "MINUS", Lateral: "LATERAL"}[type(element)]
        return f"{word} {inner}"

    def values(self, values: Values, depth: int) -> str:
        cells = (["UNDEF" if one is None else self.term(one) for one in row] for row in values.rows)
        if values.single:
            return f"VALUES ?{values.variables[0].name} {{ {' '.join(row[0] for row in cells)} }}"
        names = " ".join(f"?{one.name}" for one in values.variables)
        return f"VALUES ({names}) " + self.block((f"({' '.join(row)})" for row in cells), depth)

    def quads(self, quads: Quads, depth: int) -> str:
        lines = (
            f"GRAPH {self.term(one.name)} {self.quads(one.triples, depth + 1)}"
            if isinstance(one, QuadsIn)
            else self.triples(one, depth + 1)
            for one in quads
        )
        return self.block(lines, depth)

    # --- Triples ---

    def triples(self, triples: Triples, depth: int) -> str:
        subject = self.term(triples.subject)
        if not triples.properties:
            return f"{subject} ."
        return f"{subject} {self.properties(triples.properties, ' ;' + chr(10) + _INDENT * (depth + 1))} ."

    def properties(self, properties: tuple[Property, ...], separator: str = " ; ") -> str:
        return separator.join(
            f"{self.path(one.verb)} {', '.join(self.object(thing) for thing in one.objects)}" for one in properties
        )

    def object(self, thing: Term | Annotated) -> str:
        if not isinstance(thing, Annotated):
            return self.term(thing)
        parts = [self.term(thing.term)]
        bare = False
        for one in thing.annotations:
            if one.reifier is not None:
                parts.append(f"~ {self.term(one.reifier)}")
            elif bare or not one.block:
                # Behind a lone ~ a block would belong to it.
                parts.append("~")
            bare = one.reifier is None and not one.block
            if one.block:
                parts.append(f"{{| {self.properties(one.properties)} |}}")
        return " ".join(parts)

    def path(self, path: Var | Path, least: int = _CHOICE) -> str:
        if isinstance(path, Iri):
            return "a" if path.value == TYPE else self.term(path)
        if isinstance(path, Var):
            return f"?{path.name}"
        if isinstance(path, Negated):
            return f"!({' | '.join(self.path(one) for one in path.paths)})"
        if isinstance(path, Alternative):
            said, strength = " | ".join(self.path(one, _CHAIN) for one in path.paths), _CHOICE
        elif isinstance(path, Sequence):
            said, strength = "/".join(self.path(one, _STEP) for one in path.paths), _CHAIN
        elif isinstance(path, Inverse):
            # ^p* is the inverse of p*, not p* of the inverse.
            inner = self.path(path.path, _STEP)
            said, strength = f"^({inner})" if isinstance(path.path, Inverse) else f"^{inner}", _STEP
        else:
            assert isinstance(path, Repeat)
            said, strength = self.path(path.path, _ALONE) + path.times, _STEP
        return f"({said})" if strength < least else said

    # --- Terms ---

    def term(self, term: Term) -> str:
        if isinstance(term, Var):
            return f"?{term.name}"
        if isinstance(term, Iri):
            return self.iri(term.value)
        if isinstance(term, Literal):
            return self.literal(term)
        if isinstance(term, BlankNode):
            return "[]" if term.label is None else f"_:{term.label}"
        if isinstance(term, Described):
            return f"[ {self.properties(term.properties)} ]"
        if isinstance(term, Collection):
            return f"({' '.join(self.term(one) for one in term.items)})"
        said = f"{self.term(term.subject)} {self.path(term.predicate)} {self.term(term.object)}"  # type: ignore[arg-type]
        if isinstance(term, TripleTerm):
            return f"<<( {said} )>>"
        assert isinstance(term, ReifiedTriple)
        return f"<< {said} >>" if term.reifier is None else f"<< {said} ~ {self.term(term.reifier)} >>"

    def iri(self, value: str) -> str:
        cut = max(value.rfind("#"), value.rfind("/"), value.rfind(":")) + 1
        for namespace in (value[:cut], value):
            name = self._namespaces.get(namespace)
            if name is not None and _SIMPLE.fullmatch(value, len(namespace)):
                return f"{name}:{value[len(namespace) :]}"
        return f"<{value}>"

    def literal(self, literal: Literal) -> str:
        pattern = _NUMBERS.get(literal.datatype or "")
        if pattern is not None and pattern.fullmatch(literal.value):
            return literal.value
        said = _quoted(literal.value)
        if literal.language is not None:
            return f"{said}@{literal.language}{'--' + literal.direction if literal.direction else ''}"
        return said if literal.datatype is None else f"{said}^^{self.iri(literal.datatype)}"

    # --- Expressions ---

    def expression(self, one: Expression, least: int = OR, depth: int = 0) -> str:
        if isinstance(one, (Var, Iri, Literal, TripleTerm)):
            return self.term(one)
        strength = PRODUCT + 1
        if isinstance(one, (Or, And)):
            strength, sign = (OR, " || ") if isinstance(one, Or) else (AND, " && ")
            said = sign.join(self.expression(operand, strength + 1, depth) for operand in one.operands)
        elif isinstance(one, Compare):
            strength = RELATION
            sides = (self.expression(side, SUM, depth) for side in (one.left, one.right))
            said = f" {one.operator} ".join(sides)
        elif isinstance(one, In):
            strength = RELATION
            items = ", ".join(self.expression(item, OR, depth) for item in one.items)
            said = f"{self.expression(one.operand, SUM, depth)} {'NOT ' if one.negated else ''}IN ({items})"
        elif isinstance(one, Arithmetic):
            strength = SUM if one.rest[0][0] in "+-" else PRODUCT
            rest = (f" {sign} {self.expression(part, strength + 1, depth)}" for sign, part in one.rest)
            said = self.expression(one.first, strength + 1, depth) + "".join(rest)
        elif isinstance(one, Unary):
            # -1 is a number, - 1 the negation of one.
            said = f"{one.operator}{' ' * (one.operator != '!')}{self.expression(one.operand, PRODUCT + 1, depth)}"
        elif isinstance(one, Builtin):
            said = f"{one.name}({', '.join(self.expression(part, OR, depth) for part in one.arguments)})"
        elif isinstance(one, Call):
            parts = ", ".join(self.expression(part, OR, depth) for part in one.arguments)
            said = f"{self.iri(one.function.value)}({'DISTINCT ' * one.distinct}{parts})"
        elif isinstance(one, Aggregate):
            operand = "*" if one.operand is None else self.expression(one.operand, OR, depth)
            apart = "" if one.separator is None else f" ; SEPARATOR = {_quoted(one.separator)}"
            said = f"{one.name}({'DISTINCT ' * one.distinct}{operand}{apart})"
        else:
            assert isinstance(one, Exists)
            said = f"{'NOT ' * one.negated}EXISTS {self.group(one.group, depth)}"
        return f"({said})" if strength < least else said

    # --- Updates ---

    def update(self, tree: Update) -> str:
        steps = []
        for step in tree.steps:
            lines = self.prologue(step.prologue)
            if step.operation is not None:
                lines.append(self.operation(step.operation))
            steps.append("\n".join(lines))
        return " ;\n".join(steps) + "\n" * bool(steps)

    def operation(self, one: Operation) -> str:
        if isinstance(one, Modify):
            return self.modify(one)
        if isinstance(one, (InsertData, DeleteData, DeleteWhere)):
            words = {InsertData: "INSERT DATA", DeleteData: "DELETE DATA", DeleteWhere: "DELETE WHERE"}[type(one)]
            return f"{words} {self.quads(one.quads, 0)}"
        silent = "SILENT " * one.silent
        if isinstance(one, Load):
            into = "" if one.into is None else f" INTO GRAPH {self.term(one.into)}"
            return f"LOAD {silent}{self.term(one.source)}{into}"
        if isinstance(one, Clear):
            target = one.target if isinstance(one.target, str) else f"GRAPH {self.term(one.target)}"
            return f"{one.verb} {silent}{target}"
        if isinstance(one, Create):
            return f"CREATE {silent}GRAPH {self.term(one.graph)}"
        source, target = (
            "DEFAULT" if side is None else f"GRAPH {self.term(side)}" for side in (one.source, one.target)
        )
        return f"{one.verb} {silent}{source} TO {target}"

    def modify(self, one: Modify) -> str:
        lines = [] if one.graph is None else [f"WITH {self.term(one.graph)}"]
        if one.delete is not None:
            lines.append(f"DELETE {self.quads(one.delete, 0)}")
        if one.insert is not None:
            lines.append(f"INSERT {self.quads(one.insert, 0)}")
        lines += [self.source("USING", source) for source in one.using]
        lines.append(f"WHERE {self.group(one.where, 0)}")
        return "\n".join(lines)


def _quoted(value: str) -> str:
    return '"' + _TO_QUOTE.sub(lambda found: _QUOTED.get(found[0]) or f"\\u{ord(found[0]):04X}", value) + '"'
