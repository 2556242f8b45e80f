"""What a record says alone can refuse it; what needs other records is reported on the graph as it will be."""

from __future__ import annotations

import hashlib
import logging
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import rdflib
from pyoxigraph import NamedNode
from rdflib.term import Node

from ontology.conform import Conforms, Values, compiled, grouped
from ontology.facts import RDF, RDFS, SH, XSD, Facts
from ontology.graph import TurtleError, from_rdflib, graph_of, parse_prefixed, read_text, text_to_rdflib
from ontology.locality import BESIDE, CONSTRAINTS, INTEGERS, Reading, Root, sh
from ontology.message import message, path_text
from ontology.neighbours import Looks, look
from ontology.reach import Read, reads, walk_back
from ontology.speakers import Speakers
from ontology.view import Match, TooMuch, View
from ontology.violation import VIOLATION, WARNING, Violation
from ontology.vocabulary import Vocabulary

BUILTIN = Path(__file__).with_name("shapes.ttl")
RULES = "1"
CHUNK = 500
"""Focus nodes put before pyshacl in one call."""
READ_LIMIT = 2_000_000
"""Statements one wide check may read before it is given up and says so."""
NOT_CHECKED = "https://w3id.org/graphtide/ns#NotChecked"

_RDF_TYPE = f"<{RDF}type>"
_SEVERITIES = {SH + "Violation": "Violation", SH + "Warning": "Warning", SH + "Info": "Info"}
_DIRECTIONS = frozenset([sh.property, sh.node, sh["not"], sh.qualifiedValueShape])


class ShapesError(TurtleError):
    """A shapes file that cannot be used: it names the file and the reason."""


class Shapes:
    """The shapes of some Turtle files, ready to check records and graphs. Safe to use from one thread at a time."""

    def __init__(self, sources: Sequence[tuple[str, str]], vocabulary: Vocabulary | None = None) -> None:
        """`sources` are (name, Turtle text). Raises ShapesError."""
        # rdflib logs a traceback, or warns, for each ill-typed literal, which here is an ordinary finding.
        logging.getLogger("rdflib.term").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", category=UserWarning, module=r"rdflib\.term")
        self.superclasses = dict(vocabulary.superclasses) if vocabulary is not None else {}
        self.prefixes: dict[str, str] = dict(vocabulary.prefixes) if vocabulary is not None else {}
        self.graph = _graph(sources, self.prefixes)
        self.version = _version(sources, self.superclasses)
        self._reading = Reading(self.graph)
        self._full, self._local_graph = self.graph, _copy(self.graph)
        self._looks: dict[str, Looks | None] = {}
        self.roots = self._split()
        self._shapes = _pyshacl(self._full, sources)
        self._locals = _pyshacl(self._local_graph, sources)
        local_reading = Reading(self._local_graph)
        self._conforms: dict[str, Conforms] = {
            root.name: compiled(local_reading, root.node) for root in self.roots if root.local
        }
        self._by_class = _index(self.roots, "classes", self.superclasses)
        self._by_subject = _index(self.roots, "subjects_of")
        self._by_object = _index(self.roots, "objects_of")
        self._by_node = _index(self.roots, "nodes")
        self._types: dict[str, tuple[Root, ...]] = {}
        self._reads: dict[str, list[tuple[Root, Read]]] = {}
        self._unknown: list[Root] = []
        for root in self.roots:
            found, unknown = reads(self._reading, root) if root.wide else (frozenset(), False)
            for read in found:
                self._reads.setdefault(read.predicate, []).append((root, read))
            if unknown and root.wide:
                self._unknown.append(root)

    @classmethod
    def load(
        cls, paths: Sequence[Path | str] = (), builtin: bool = True, *, vocabulary: Vocabulary | None = None
    ) -> Shapes:
        """The shapes in these Turtle files, ours included unless `builtin` is off.

        `vocabulary` tells which classes are subclasses of the ones shapes are about. Raises ShapesError naming file
        and reason.
        """
        files = ([BUILTIN] if builtin else []) + [Path(path) for path in paths]
        try:
            return cls([(str(path), read_text(path)) for path in files], vocabulary)
        except ShapesError:
            raise
        except TurtleError as wrong:  # it cannot be read at all
            raise ShapesError(wrong.path, wrong.reason, wrong.line) from wrong

    def names(self) -> list[tuple[str, str]]:
        """(IRI, label) of each shape that has a target, sorted."""
        return [(root.name, root.label) for root in self.roots]

    def local(self, facts: Iterable[Facts]) -> list[Violation]:
        """What is wrong with each record by itself, in the order of the records.

        No record sees another's facts. pyshacl sees only what a quick check could not pass, and is not called when
        nothing is left.
        """
        pending: list[_Pending] = []
        for number, record in enumerate(facts):
            for focus, values in grouped(record.statements).items():
                for root in self._targets(focus, values):
                    if root.local and not self._conforms[root.name](focus, values):
                        pending.append(_Pending(number, record, focus, values, root))
        out: list[tuple[int, Violation]] = []
        for group in _rounds(pending):
            out.extend(self._judge(group))
        out.sort(key=lambda item: (item[0], _order(item[1])))
        return [violation for _, violation in out]

    def wide(
        self, match: Match, focus: Iterable[str] | None = None, *, speakers: Speakers | None = None
    ) -> list[Violation]:
        """What is wrong on the graph that `match(s, p, o)` reads, beyond what a record alone shows.

        For these focus nodes (bare IRIs), or every node a shape is about; then `speakers`, where known, spares nodes
        that one record alone speaks of. `record` and `locator` are empty: who is involved is for the caller to say.
        Sorted.
        """
        view = View(match, self.superclasses, READ_LIMIT)
        graph = rdflib.Graph(store=view, bind_namespaces="none")
        todo = self._every_target(view, match, speakers) if focus is None else self._some_targets(view, match, focus)
        out: list[Violation] = []
        for root, nodes in todo.items():
            ordered = sorted(nodes)
            for start in range(0, len(ordered), CHUNK):
                chunk = ordered[start : start + CHUNK]
                try:
                    out.extend(self._wide_chunk(root, graph, chunk))
                except TooMuch:
                    text = f"{root.label}: not checked, since it reads more than {READ_LIMIT:,} statements."
                    out.append(Violation("", chunk[0], "", "", NOT_CHECKED, WARNING, text, "", root.name))
                    break
        return sorted(set(out), key=_order)

    def wide_touched(self, statements: Iterable[str], match: Match | None = None) -> set[str]:
        """The focus nodes (bare IRIs) whose wide findings may change when these statements come or go.

        `match` reads the graph as it is afterwards; without it only nodes the statements name are found. Where
        subclasses come and go, ask the graph as it was before as well: what no shape is about any more is found there.
        """
        out: set[str] = set()
        unknown: set[str] = set()
        for statement in statements:
            subject, predicate, value = statement.split(" ", 2)
            out.add(subject[1:-1])
            name = predicate[1:-1]
            if name == RDFS + "subClassOf":
                unknown.update(root.name for root in self.roots)  # what every shape is about may have changed
            if name in self._by_object and value[0] == "<":
                out.add(value[1:-1])
            for root, read in (*self._reads.get(name, ()), *self._reads.get("", ())):
                start = value if read.inverse else subject
                if start[0] != "<":
                    continue
                if match is None:
                    out.add(start[1:-1])
                    continue
                found = walk_back(start[1:-1], read.steps, match)
                if found is None:
                    unknown.add(root.name)
                else:
                    out |= found
        if match is not None:
            for root in self.roots:
                if root.name in unknown or root in self._unknown:
                    view = View(match, self.superclasses, READ_LIMIT)
                    out.update(self._all_targets(root, view, match))
        return out

    # -- targets

    def _targets(self, focus: str, values: Values) -> list[Root]:
        """The roots about this node as one record speaks of it."""
        found: list[Root] = []
        for kind in values.get(_RDF_TYPE, ()):
            found.extend(self._of_class(kind))
        if self._by_node and focus[1:-1] in self._by_node:
            found.extend(self._by_node[focus[1:-1]])
        if self._by_subject:
            for predicate in values:
                found.extend(self._by_subject.get(predicate[1:-1], ()))
        return list(dict.fromkeys(found)) if len(found) > 1 else found

    def _of_class(self, kind: str) -> tuple[Root, ...]:
        return self._by_class.get(kind[1:-1], ())

    def _every_target(self, view: View, match: Match, speakers: Speakers | None) -> dict[Root, set[str]]:
        """For each root the nodes of the whole graph that pyshacl must see."""
        out: dict[Root, set[str]] = {}
        for root in self.roots:
            if root.wide or root.local:
                out[root] = {
                    node
                    for node in self._all_targets(root, view, match)
                    if (root.wide or speakers is None or node in root.nodes or speakers.several(node))
                    and not self._surely(root, node, _values(match, NamedNode(node)), match)
                }
        return out

    def _some_targets(self, view: View, match: Match, focus: Iterable[str]) -> dict[Root, set[str]]:
        """The same for these nodes."""
        out: dict[Root, set[str]] = {}
        special = {root: set(self._all_targets(root, view, match)) for root in self.roots if root.special and root.wide}
        for name in set(focus):
            if not _is_iri(name):
                continue
            node = NamedNode(name)
            values = _values(match, node)
            found: set[Root] = set(self._by_node.get(name, ()))
            for kind in values.get(_RDF_TYPE, ()):
                if kind[0] == "<":
                    found |= self._above(kind[1:-1], view)
            for predicate in values:
                found.update(self._by_subject.get(predicate[1:-1], ()))
            for predicate, roots in self._by_object.items():
                if any(True for _ in match(None, NamedNode(predicate), node)):
                    found.update(roots)
            found.update(root for root, nodes in special.items() if name in nodes)
            for root in found:
                if (root.wide or root.local) and not self._surely(root, name, values, match):
                    out.setdefault(root, set()).add(name)
        return out

    def _surely(self, root: Root, node: str, values: Values, match: Match) -> bool:
        """Whether the node conforms, as far as can be seen without pyshacl."""
        if root.local and not self._conforms[root.name](f"<{node}>", values):
            return False
        if not root.wide:
            return True
        looks = self._looks[root.name]
        return looks is not None and looks(node, values, match)

    def _above(self, kind: str, view: View) -> set[Root]:
        found: set[Root] = set()
        seen, todo = {kind}, [kind]
        while todo:
            name = todo.pop()
            found.update(self._by_class.get(name, ()))
            for _, _, other in view.found(rdflib.URIRef(name), rdflib.RDFS.subClassOf, None):
                if str(other) not in seen:
                    seen.add(str(other))
                    todo.append(str(other))
        return found

    def _all_targets(self, root: Root, view: View, match: Match) -> Iterator[str]:
        """Every node of the graph the root is about, some perhaps twice."""
        if root.special:
            graph = rdflib.Graph(store=view, bind_namespaces="none")
            shape = self._shapes.lookup_shape_from_node(root.node)
            shape.set_advanced(True)
            try:
                yield from (str(node) for node in shape.focus_nodes(graph) if isinstance(node, rdflib.URIRef))
            except Exception:  # its target's query cannot be run: validate() says so of nothing
                return
            finally:
                shape.set_advanced(False)
            return
        yield from (name for name in root.nodes if _is_iri(name))
        kinds, todo = set(root.classes), list(root.classes)
        while todo:
            for below, _, _ in view.found(None, rdflib.RDFS.subClassOf, rdflib.URIRef(todo.pop())):
                if str(below) not in kinds:
                    kinds.add(str(below))
                    todo.append(str(below))
        for kind in sorted(filter(_is_iri, kinds)):
            yield from _subjects(match, RDF + "type", NamedNode(kind))
        for predicate in root.subjects_of:
            yield from _subjects(match, predicate, None)
        for predicate in root.objects_of:
            for found in match(None, NamedNode(predicate), None):
                if isinstance(found.object, NamedNode):
                    yield found.object.value

    # -- judging

    def _judge(self, group: list[_Pending]) -> Iterator[tuple[int, Violation]]:
        graph = rdflib.Graph(bind_namespaces="none")
        by_root: dict[Root, dict[Node, _Pending]] = {}
        for item in group:
            node = text_to_rdflib(item.focus)
            by_root.setdefault(item.root, {})[node] = item
            for predicate, values in item.values.items():
                for value in values:
                    graph.add((node, text_to_rdflib(predicate), text_to_rdflib(value)))
        for root, items in by_root.items():
            shape = self._locals.lookup_shape_from_node(root.node)
            for start in range(0, len(items), CHUNK):
                nodes = list(items)[start : start + CHUNK]
                for found in self._run(shape, graph, nodes, root, self._local_graph):
                    item = items[found["focusNode"]]
                    yield item.number, self._violation(found, root, item.record.record, item.record.locator)

    def _wide_chunk(self, root: Root, graph: rdflib.Graph, nodes: list[str]) -> Iterator[Violation]:
        shape = self._shapes.lookup_shape_from_node(root.node)
        foreign = bool(root.objects_of)
        for found in self._run(shape, graph, [rdflib.URIRef(node) for node in nodes], root, self._full):
            own = (found["sourceShape"], str(found["sourceConstraintComponent"])) in root.own
            severity = _SEVERITIES.get(str(found["resultSeverity"]), VIOLATION)
            # What a record alone shows is said by its local check; only what refuses is worth saying of the merge too.
            if own and severity != VIOLATION and not foreign:
                continue
            yield self._violation(found, root, "", "")

    def _run(
        self, shape: Any, graph: rdflib.Graph, nodes: list[Any], root: Root, shapes: rdflib.Graph
    ) -> Iterator[dict[str, Any]]:
        from pyshacl.pytypes import SHACLExecutor

        try:
            _, reports = shape.validate(SHACLExecutor(), graph, focus=nodes)
        except TooMuch:
            raise
        except Exception as wrong:  # a shape's own SPARQL or a path beyond pyshacl: a finding, never a stop
            said = f"{root.label}: not checked, since {_first_line(wrong)}"
            for node in nodes:
                yield {
                    "focusNode": node,
                    "sourceShape": root.node,
                    "sourceConstraintComponent": NOT_CHECKED,
                    "resultSeverity": SH + "Warning",
                    "resultMessage": said,
                }
            return
        for _, node, triples in reports:
            found: dict[str, Any] = {}
            for s, p, o in triples:
                if s == node:
                    found.setdefault(str(p)[len(SH) :] if str(p).startswith(SH) else str(p), _bare(o))
            yield found

    def _violation(self, found: dict[str, Any], root: Root, record: str, locator: str) -> Violation:
        source = found["sourceShape"]
        component = str(found["sourceConstraintComponent"])
        path = path_text(self._full, found.get("resultPath"))
        value = from_rdflib(found["value"]) if found.get("value") is not None else ""
        generic = str(found.get("resultMessage", ""))
        bound = component == NOT_CHECKED
        text = generic if bound else message(self._full, source, component, value, path, generic, self.prefixes)
        return Violation(
            record=record,
            focus=str(found["focusNode"]),
            path=path,
            value=value,
            constraint=component,
            severity=_SEVERITIES.get(str(found["resultSeverity"]), VIOLATION),
            message=text,
            locator=locator,
            shape=root.name,
        )

    # -- loading

    def _split(self) -> tuple[Root, ...]:
        roots: list[Root] = []
        for number, node in enumerate(self._reading.targets()):
            own, wide = self._reading.split(node)
            for triple in wide:
                self._local_graph.remove(triple)
            name = str(node) if isinstance(node, rdflib.URIRef) else _anonymous(self._reading, node, number)
            self._looks[name] = look(self._reading, wide, self.superclasses)
            roots.append(
                self._reading.root(
                    node,
                    name,
                    own,
                    wide=bool(wide)
                    or bool(
                        list(self.graph.objects(node, sh.targetObjectsOf)) or list(self.graph.objects(node, sh.target))
                    ),
                )
            )
        return tuple(sorted(roots, key=lambda root: root.name))


class _Pending:
    """One node of one record that a quick check could not pass."""

    __slots__ = ("number", "record", "focus", "values", "root")

    def __init__(self, number: int, record: Facts, focus: str, values: Values, root: Root) -> None:
        self.number, self.record, self.focus, self.values, self.root = number, record, focus, values, root


def _values(match: Match, node: NamedNode) -> dict[str, list[str]]:
    """A node's statements, spelled predicate to spelled objects."""
    values: dict[str, list[str]] = {}
    for found in match(node, None, None):
        values.setdefault(str(found.predicate), []).append(str(found.object))
    return values


def _subjects(match: Match, predicate: str, value: NamedNode | None) -> Iterator[str]:
    for found in match(None, NamedNode(predicate), value):
        if isinstance(found.subject, NamedNode):
            yield found.subject.value


def _rounds(pending: list[_Pending]) -> Iterator[list[_Pending]]:
    """Groups in which no two records speak of the same node, so that one graph can hold each group."""
    while pending:
        owner: dict[str, int] = {}
        now: list[_Pending] = []
        later: list[_Pending] = []
        for item in pending:
            (now if owner.setdefault(item.focus, item.number) == item.number else later).append(item)
        yield now
        pending = later


def _index(
    roots: Iterable[Root], attribute: str, superclasses: dict[str, frozenset[str]] | None = None
) -> dict[str, tuple[Root, ...]]:
    out: dict[str, list[Root]] = {}
    for root in roots:
        for name in getattr(root, attribute):
            out.setdefault(name, []).append(root)
    if superclasses:
        direct = {name: list(found) for name, found in out.items()}
        for below, above in superclasses.items():
            for name in above:
                for root in direct.get(name, ()):
                    if root not in out.setdefault(below, []):
                        out[below].append(root)
    return {name: tuple(found) for name, found in out.items() if found}


def _graph(sources: Sequence[tuple[str, str]], prefixes: dict[str, str]) -> rdflib.Graph:
    graph = rdflib.Graph(bind_namespaces="none")
    for number, (name, text) in enumerate(sources):
        try:
            triples, found = parse_prefixed(text, name)
        except TurtleError as wrong:
            raise ShapesError(wrong.path, wrong.reason, wrong.line) from wrong
        prefixes.update(found)
        for s, p, o in graph_of(triples, f"f{number}_"):
            # The store keeps every integer type as xsd:integer, so that is what a fact can be (test_facts_spelling).
            graph.add((s, p, rdflib.URIRef(XSD + "integer") if p == sh.datatype and o in INTEGERS else o))
        _known_terms(triples, name)
    return graph


def _known_terms(triples: Sequence[Any], name: str) -> None:
    known = {str(term)[len(SH) :] for term in CONSTRAINTS | BESIDE}
    for triple in triples:
        predicate = triple.predicate.value
        if predicate.startswith(SH) and predicate[len(SH) :] not in known:
            word = predicate[len(SH) :]
            near = get_close_matches(word, sorted(known), n=1)
            hint = f" Did you mean sh:{near[0]}?" if near else ""
            raise ShapesError(name, f"sh:{word} is not a term of SHACL.{hint}")


def _copy(graph: rdflib.Graph) -> rdflib.Graph:
    copy = rdflib.Graph(bind_namespaces="none")
    for triple in graph:
        copy.add(triple)
    return copy


def _pyshacl(graph: rdflib.Graph, sources: Sequence[tuple[str, str]]) -> Any:
    """pyshacl's shapes, each constraint built once so that a malformed one is told now. Raises ShapesError."""
    from pyshacl.constraints import CONSTRAINT_PARAMETERS_MAP
    from pyshacl.errors import ConstraintLoadError, ConstraintLoadWarning, RuleLoadError, ShapeLoadError
    from pyshacl.shapes_graph import ShapesGraph

    shape: Any = None
    try:
        shapes = ShapesGraph(graph)
        for shape in shapes.shapes:
            for predicate, value in graph.predicate_objects(shape.node):
                if predicate in CONSTRAINT_PARAMETERS_MAP:
                    CONSTRAINT_PARAMETERS_MAP[predicate](shape)
                if predicate in _DIRECTIONS:
                    shapes.lookup_shape_from_node(value)
        return shapes
    except (ConstraintLoadError, ConstraintLoadWarning, RuleLoadError, ShapeLoadError) as wrong:
        reason = str(getattr(wrong, "message", None) or _first_line(wrong))
    except (KeyError, TypeError, ValueError, AssertionError, RuntimeError, re.error) as wrong:
        reason = _first_line(wrong)
    raise ShapesError(_file_of(shape, graph, sources), f"{_named(shape)}: {reason}")


def _file_of(shape: Any, graph: rdflib.Graph, sources: Sequence[tuple[str, str]]) -> str:
    """The file a malformed shape stands in; all of them when pyshacl does not say which shape it is."""
    node = getattr(shape, "node", None)
    if isinstance(node, rdflib.BNode) and str(node).startswith("f"):
        return sources[int(str(node)[1:].partition("_")[0])][0]
    if node is not None:
        local = str(node).rsplit("#", 1)[-1].rsplit("/", 1)[-1]
        for name, text in reversed(sources):
            if local and local in text:
                return name
    return sources[-1][0] if sources else "shapes"


def _named(shape: Any) -> str:
    node = getattr(shape, "node", None)
    if node is None:
        return "a shape is malformed"
    if isinstance(node, rdflib.BNode):
        path = getattr(shape, "_path", None)
        return f"the property shape of <{path}>" if path is not None else "a shape without a name"
    return f"<{node}>"


def _version(sources: Sequence[tuple[str, str]], superclasses: dict[str, frozenset[str]]) -> str:
    import pyshacl

    order = sorted((name, sorted(above)) for name, above in superclasses.items())
    parts = [RULES, pyshacl.__version__, rdflib.__version__, sorted(text for _, text in sources), order]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _anonymous(reading: Reading, node: Node, number: int) -> str:
    targets = sorted(str(o) for p, o in reading.graph.predicate_objects(node) if str(p).startswith(SH + "target"))
    digest = hashlib.sha256(repr([targets, number]).encode()).hexdigest()[:12]
    return f"https://w3id.org/graphtide/ns#shape-{digest}"


def _bare(value: Any) -> Any:
    return value[1] if isinstance(value, tuple) else value


def _is_iri(name: str) -> bool:
    try:
        NamedNode(name)
    except ValueError:
        return False
    return True


def _first_line(wrong: BaseException) -> str:
    return str(wrong).strip().splitlines()[0] if str(wrong).strip() else type(wrong).__name__


def _order(violation: Violation) -> tuple[str, ...]:
    return (
        violation.record, violation.focus, violation.path, violation.value, violation.constraint, violation.shape,
        violation.severity, violation.message,
    )  # fmt: skip
