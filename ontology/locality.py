"""What a constraint reads decides whether a record alone can break it: its own facts refuse, anyone else's report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import rdflib
from rdflib.term import Node

from ontology.facts import RDF, RDFS, SH, XSD
from ontology.vocabulary import OWL

sh = rdflib.Namespace(SH)
TYPE = rdflib.URIRef(RDF + "type")

VALUE = frozenset(
    sh[name]
    for name in ("datatype", "nodeKind", "in", "pattern", "minLength", "maxLength", "languageIn",
                 "minInclusive", "maxInclusive", "minExclusive", "maxExclusive")
)  # fmt: skip
COUNT = frozenset(sh[name] for name in ("minCount", "maxCount", "uniqueLang", "hasValue"))
PAIR = frozenset(sh[name] for name in ("equals", "disjoint", "lessThan", "lessThanOrEquals"))
ONE = frozenset(sh[name] for name in ("node", "not", "qualifiedValueShape"))
LISTS = frozenset(sh[name] for name in ("and", "or", "xone"))
OTHER = frozenset(sh[name] for name in ("class", "closed", "property", "sparql", "expression", "js", "rule"))
CONSTRAINTS = VALUE | COUNT | PAIR | ONE | LISTS | OTHER
TARGETS = frozenset(sh[name] for name in ("targetClass", "targetNode", "targetSubjectsOf", "targetObjectsOf", "target"))
BESIDE = TARGETS | frozenset(
    sh[name]
    for name in ("path", "severity", "message", "name", "description", "order", "group", "deactivated", "defaultValue",
                 "flags", "ignoredProperties", "qualifiedMinCount", "qualifiedMaxCount", "qualifiedValueShapesDisjoint",
                 "prefixes", "declare", "prefix", "namespace", "select", "ask", "construct", "update", "parameter",
                 "optional", "labelTemplate", "nodeValidator", "propertyValidator", "validator", "inversePath",
                 "alternativePath", "zeroOrMorePath", "oneOrMorePath", "zeroOrOnePath", "shapesGraph",
                 "shapesGraphWellFormed", "entailment", "suggestedShapesGraph", "condition", "subject", "predicate",
                 "object", "this", "nodes", "filterShape", "union", "intersection", "returnType", "jsFunctionName",
                 "jsLibrary", "jsLibraryURL", "if", "then", "else", "exists", "count", "distinct", "sum", "min", "max",
                 "limit", "offset", "orderBy", "desc", "groupConcat", "separator",
                 "conforms", "result", "detail", "focusNode", "resultPath", "resultMessage", "resultSeverity", "value",
                 "sourceShape", "sourceConstraint", "sourceConstraintComponent", "resultAnnotation",
                 "annotationProperty", "annotationVarName", "annotationValue")
)  # fmt: skip
"""SHACL's other predicates: they constrain nothing by themselves."""
COMPONENTS: dict[Node, str] = {
    param: SH + param[len(SH)].upper() + param[len(SH) + 1 :] + "ConstraintComponent" for param in CONSTRAINTS
}
_PARTS: dict[Node, tuple[str, ...]] = {sh.qualifiedValueShape: (SH + "QualifiedMinCountConstraintComponent",
                                   SH + "QualifiedMaxCountConstraintComponent",
                                   SH + "QualifiedValueShapeConstraintComponent")}  # fmt: skip
_CLASSES = frozenset(rdflib.URIRef(name) for name in (RDFS + "Class", OWL + "Class"))
INTEGERS = frozenset(
    rdflib.URIRef(XSD + name)
    for name in ("int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger",
                 "negativeInteger", "unsignedLong", "unsignedInt", "unsignedShort", "unsignedByte")
)  # fmt: skip


@dataclass(frozen=True)
class Root:
    """A shape that says by itself what it is about."""

    node: Node
    name: str
    label: str
    classes: frozenset[str]
    nodes: frozenset[str]
    subjects_of: frozenset[str]
    objects_of: frozenset[str]
    local: bool
    """Whether something of it can be checked on one record."""
    wide: bool
    """Whether something of it needs other records."""
    special: bool = False
    """Whether its focus nodes are found by a query of its own."""
    own: frozenset[tuple[Node, str]] = field(default=frozenset(), repr=False)
    """(shape, constraint component) of what a record alone can break."""


class Reading:
    """How the shapes of one graph read data."""

    def __init__(self, graph: rdflib.Graph) -> None:
        self.graph = graph
        self.custom = frozenset(
            path
            for component in graph.subjects(TYPE, sh.ConstraintComponent)
            for parameter in graph.objects(component, sh.parameter)
            for path in graph.objects(parameter, sh.path)
        )

    def targets(self) -> list[Node]:
        """The shapes that have a target, sorted by name."""
        found: set[Node] = set()
        for predicate in TARGETS:
            found.update(self.graph.subjects(predicate, None))
        for kind in _CLASSES:
            for node in self.graph.subjects(TYPE, kind):
                if any((node, TYPE, shape) in self.graph for shape in (sh.NodeShape, sh.PropertyShape)):
                    found.add(node)
        return sorted(found, key=str)

    def params(self, shape: Node) -> Iterator[tuple[Node, Node]]:
        for predicate, value in self.graph.predicate_objects(shape):
            if predicate in CONSTRAINTS or predicate in self.custom:
                yield predicate, value

    def own_path(self, path: Node) -> list[str] | None:
        """The predicates of a path that reads the focus node's own statements alone, else None."""
        if isinstance(path, rdflib.URIRef):
            return [str(path)]
        options = list(self.graph.objects(path, sh.alternativePath))
        if len(options) == 1 and not list(self.graph.objects(path, rdflib.RDF.first)):
            members = list(self.graph.items(options[0]))
            if members and all(isinstance(member, rdflib.URIRef) for member in members):
                return [str(member) for member in members]
        return None

    def path(self, shape: Node) -> Node | None:
        return self.graph.value(shape, sh.path)

    def value_only(self, shape: Node, seen: frozenset[Node] = frozenset()) -> bool:
        """Whether the shape, met as what a value must be, reads the value and nothing else."""
        if shape in seen or self.path(shape) is not None:
            return False
        seen = seen | {shape}
        for param, value in self.params(shape):
            if param in VALUE or param == sh.hasValue:
                continue
            if param in ONE and self.value_only(value, seen):
                continue
            if param in LISTS and all(self.value_only(member, seen) for member in self.graph.items(value)):
                continue
            return False
        return True

    def is_own(self, shape: Node, param: Node, value: Node, seen: frozenset[Node]) -> bool:
        """Whether one constraint of a shape reads the focus node's own statements alone."""
        path = self.path(shape)
        if path is not None and self.own_path(path) is None:
            return False
        if param in VALUE or param == sh.hasValue:
            return True
        if path is not None:
            if param in COUNT or param in PAIR:
                return True
            if param == sh.qualifiedValueShape and (shape, sh.qualifiedValueShapesDisjoint, None) in self.graph:
                return False
            if param in ONE:
                return self.value_only(value)
            return param in LISTS and all(self.value_only(member) for member in self.graph.items(value))
        if param == sh.closed:
            return True
        if param == sh.property or param in ONE:
            return self.all_own(value, seen)
        return param in LISTS and all(self.all_own(member, seen) for member in self.graph.items(value))

    def all_own(self, shape: Node, seen: frozenset[Node] = frozenset()) -> bool:
        """Whether everything the shape says reads the focus node's own statements alone."""
        if shape in seen:
            return False
        seen = seen | {shape}
        return all(self.is_own(shape, param, value, seen) for param, value in self.params(shape))

    def split(self, shape: Node) -> tuple[set[tuple[Node, str]], set[tuple[Node, Node, Node]]]:
        """What of a target's shape is its own, as (shape, component), and the triples that are not."""
        own: set[tuple[Node, str]] = set()
        wide: set[tuple[Node, Node, Node]] = set()
        self._split(shape, own, wide, frozenset())
        return own, wide

    def _split(
        self, shape: Node, own: set[tuple[Node, str]], wide: set[tuple[Node, Node, Node]], seen: frozenset[Node]
    ) -> None:
        seen = seen | {shape}
        for param, value in self.params(shape):
            if param == sh.property and self.path(shape) is None and value not in seen:
                path = self.path(value)
                if path is not None and self.own_path(path) is not None:
                    self._split(value, own, wide, seen)
                    continue
                if path is None:
                    continue  # malformed: pyshacl says so
            elif self.is_own(shape, param, value, frozenset({shape})):
                own.update((shape, name) for name in _PARTS.get(param, (COMPONENTS.get(param, ""),)))
                continue
            wide.add((shape, param, value))
            if param == sh.qualifiedValueShape:
                for beside in (sh.qualifiedMinCount, sh.qualifiedMaxCount, sh.qualifiedValueShapesDisjoint):
                    wide.update((shape, beside, number) for number in self.graph.objects(shape, beside))

    def root(self, shape: Node, name: str, own: set[tuple[Node, str]], *, wide: bool) -> Root:
        def of(predicate: Node) -> frozenset[str]:
            return frozenset(str(value) for value in self.graph.objects(shape, predicate))

        classes = of(sh.targetClass)
        if any((shape, TYPE, kind) in self.graph for kind in _CLASSES):
            classes |= {str(shape)}
        labels = sorted(
            self.graph.objects(shape, rdflib.RDFS.label), key=lambda text: (_language(text) not in ("", "en"), text)
        )
        label = str(labels[0]) if labels else name.rsplit("#", 1)[-1].rsplit("/", 1)[-1]
        deactivated = any(str(value) in ("true", "1") for value in self.graph.objects(shape, sh.deactivated))
        return Root(
            shape,
            name,
            label,
            classes,
            of(sh.targetNode),
            of(sh.targetSubjectsOf),
            of(sh.targetObjectsOf),
            local=bool(own) and not deactivated,
            wide=wide and not deactivated,
            special=bool(list(self.graph.objects(shape, sh.target))),
            own=frozenset(own),
        )


def _language(text: Node) -> str:
    return getattr(text, "language", None) or ""
