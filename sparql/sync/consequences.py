"""What follows from a change is committed with it: derived facts first, then what the wide shapes find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from typing import Any, Protocol
from urllib.parse import unquote

from pyoxigraph import DefaultGraph, Literal, NamedNode

from ontology.facts import GT, RDF, SH, string
from ontology.speakers import Speakers
from ontology.violation import Violation
from sparql.log import Change
from sparql.names import Names
from sparql.sync.entries import GENERATED, HELD, PLAN, REPORTED, SOURCE, result
from sparql.sync.known import Graph, spelled
from sparql.sync.overlay import Overlay
from sparql.sync.weave import Weave
from transforms.rules import Rule, RuleError, layered, trespass

STEPWISE = 3000  # changed statements up to which asking about each beats deriving everything again
_DEFAULT = DefaultGraph()
_FOCUS = NamedNode(SH + "focusNode")
_SOURCE = NamedNode(SOURCE[1:-1])
_TYPE, _RULE = NamedNode(RDF + "type"), NamedNode(GT + "Rule")


class Wide(Protocol):
    """What checks the whole graph, as `ontology.shapes.Shapes` does."""

    @property
    def version(self) -> str: ...

    def wide(
        self, match: Any, focus: Iterable[str] | None = None, *, speakers: Speakers | None = None
    ) -> list[Violation]: ...

    def wide_touched(self, statements: Iterable[str], match: Any = None) -> set[str]: ...


class Consequences:
    """The rules and wide shapes of one project, applied to commits in the making."""

    def __init__(self, store: Graph, rules: Iterable[Rule] = (), wide: Wide | None = None) -> None:
        """Raises RuleCycle when there is no order to run the rules in."""
        if getattr(store, "plain", False):  # what is merged is what rules read and wide shapes check
            rules, wide = (), None
        self.store, self.rules, self.wide = store, layered(rules), wide
        self._stage: Any = None
        self.speakers: Speakers | None = None
        """After a load into an empty store: which nodes several records speak of. The others need no second look."""

    def follow(self, weave: Weave, commit: str) -> None:
        """Add to `weave` what follows from it."""
        weave.settle()
        for rule in self.rules:
            removed, added = weave.pending("")
            touched = {line for lines in (removed, added) for line in lines if rule.concerns(line)}
            if touched or self._failed(rule):
                self._derive(rule, weave, commit, touched)
        self.check(weave)

    # -- rules

    def renew(self, weave: Weave, commit: str) -> bool:
        """Add to `weave` what rules and shapes that are new, changed or gone come to; True when there are any."""
        names = self.store.names
        stored = self._stored_rules()
        stale = False
        for name in sorted(set(stored) - {rule.name for rule in self.rules}):
            stale = True
            self._forget_rule(name, weave)
        before = self._wide_version()
        version = self.wide.version if self.wide is not None else ""
        for rule in self.rules:
            if stored.get(rule.name) != rule.version:
                stale = True
                weave.settle()
                self._derive(rule, weave, commit, None)
        if stale:
            # What a rule that ran before reads may have come from one that is new: take the layers once more.
            for rule in self.rules:
                self._derive(rule, weave, commit, None)
        if before != version:
            stale = True
            me = f"<{names.base}system/shapes> {PLAN} "
            was, will = ({f'{me}"{one}"'} if one else set() for one in (before, version))
            weave.system(names.cursor, was, will)
            self.check(weave, everything=True)
        elif stale:
            self.check(weave)
        return stale

    def stale(self) -> bool:
        """Whether `renew` has anything to do."""
        version = self.wide.version if self.wide is not None else ""
        rules = {rule.name: rule.version for rule in self.rules}
        return self._stored_rules() != rules or self._wide_version() != version

    def again(self, weave: Weave, commit: str) -> None:
        """Add to `weave` what rules and shapes come to when everything is derived and checked anew."""
        weave.settle()
        for rule in self.rules:
            self._derive(rule, weave, commit, None)
        self.check(weave, everything=True)

    def _derive(self, rule: Rule, weave: Weave, commit: str, touched: Set[str] | None) -> None:
        """The rule's graphs say what follows; `touched` is what changed, None for everything."""
        now = self._holding(weave)
        try:
            if touched is not None and rule.stepwise and len(touched) <= STEPWISE and not self._failed(rule):
                removed, added = weave.pending("")
                gained = rule.follows(now, added & touched)
                lost = self._lost(rule, removed & touched, now, gained)
            else:
                after, before = rule.derived(now), self._derived_before(rule, weave)
                gained, lost = after - before, before - after
            wrong = trespass(rule, gained, self.rules)
            if wrong is not None:
                raise RuleError(wrong)
        except RuleError as error:
            self._mark(rule, weave, str(error))
            return
        self._mark(rule, weave, None)
        self._say(rule, weave, commit, gained, lost)
        weave.settle()

    def _lost(self, rule: Rule, removed: Set[str], now: Any, gained: Set[str]) -> frozenset[str]:
        if not removed:
            return frozenset()
        doubtful = rule.follows(_Store(self.store), removed) - gained
        return doubtful - rule.still(now, doubtful) if doubtful else frozenset()

    def _say(self, rule: Rule, weave: Weave, commit: str, gained: Set[str], lost: Set[str]) -> None:
        names = self.store.names
        by_graph: dict[str, tuple[set[str], set[str]]] = {}
        for number, lines in enumerate((gained, lost)):
            for line in lines:
                graph = derived_graph(names, rule.name, line)
                by_graph.setdefault(graph, (set(), set()))[number].add(line)
        for graph, (more, less) in by_graph.items():
            removed, added = weave.pending(graph)
            before = (self.store.statements(graph) - removed) | added
            after = (before - less) | more
            if after != before:
                weave.replace(graph, before, after)
                # What was woven of this graph's journal before counts from the store again.
                was, will = weave.pending(names.journal)
                stored = spelled(self.store, graph, names.journal)
                mine = f"<{graph}> "
                current = (stored - was) | {line for line in will if line.startswith(mine)}
                entry = {f"{mine}{SOURCE} <{names.source('rule/' + rule.name)}>", f"{mine}{GENERATED} <{commit}>"}
                weave.system(names.journal, current, entry if after else set())

    def _derived_before(self, rule: Rule, weave: Weave) -> frozenset[str]:
        out: set[str] = set()
        for graph in self.graphs(rule.name):
            out |= self.store.statements(graph)
        prefix = self.store.names.derived(rule.name, "")
        for graph in weave.graphs():
            if graph.startswith(prefix):
                removed, added = weave.pending(graph)
                out = (out - removed) | added
        return frozenset(out)

    def graphs(self, rule: str) -> list[str]:
        """The derived graphs of a rule."""
        names = self.store.names
        found = self.store.match(None, _SOURCE, NamedNode(names.source("rule/" + rule)), NamedNode(names.journal))
        return [quad.subject.value for quad in found]

    def _forget_rule(self, name: str, weave: Weave) -> None:
        names = self.store.names
        for graph in self.graphs(name):
            weave.replace(graph, self.store.statements(graph), frozenset())
            weave.system(names.journal, spelled(self.store, graph, names.journal), set())
        weave.system(names.cursor, spelled(self.store, names.source("rule/" + name), names.cursor), set())
        weave.settle()

    def _stored_rules(self) -> dict[str, str]:
        names = self.store.names
        prefix, cursor = names.source("rule/"), NamedNode(names.cursor)
        out = {}
        for quad in self.store.match(None, _TYPE, _RULE, cursor):
            plans = self.store.match(quad.subject, NamedNode(PLAN[1:-1]), None, cursor)
            out[unquote(quad.subject.value[len(prefix) :])] = next((one.object.value for one in plans), "")
        return out

    def _wide_version(self) -> str:
        names = self.store.names
        found = self.store.match(
            NamedNode(f"{names.base}system/shapes"), NamedNode(PLAN[1:-1]), None, NamedNode(names.cursor)
        )
        return next((quad.object.value for quad in found), "")

    def _failed(self, rule: Rule) -> bool:
        names = self.store.names
        me = NamedNode(names.source("rule/" + rule.name))
        return next(self.store.match(me, NamedNode(HELD[1:-1]), None, NamedNode(names.cursor)), None) is not None

    def _mark(self, rule: Rule, weave: Weave, message: str | None) -> None:
        """The cursor graph says which version of the rule stands, or why its last good facts do."""
        names = self.store.names
        me = names.source("rule/" + rule.name)
        stored = spelled(self.store, me, names.cursor)
        removed, added = weave.pending(names.cursor)
        current = (stored - removed) | {line for line in added if line.startswith(f"<{me}> ")}
        name = string(f"rule/{rule.name}")
        after = {f"<{me}> {_TYPE} {_RULE}", f'<{me}> {PLAN} "{rule.version}"', f"<{me}> {SOURCE} {name}"}
        if message is not None:
            after.add(f"<{me}> {HELD} {string(message)}")
        weave.system(names.cursor, current, after)

    def _holding(self, weave: Weave) -> _Stage:
        if self._stage is None:
            self._stage = shared_stage(self.store)
        removed, added = weave.pending("")
        self._stage.undo()
        if removed or added:
            self._stage.apply(Change({"": frozenset(removed)}, {"": frozenset(added)}))
        return _Stage(self._stage)

    def settle(self) -> None:
        """The stage is the store again, whether the commit was made or not."""
        if self._stage is not None:
            self._stage.undo()

    # -- wide shapes

    def check(self, weave: Weave, *, everything: bool = False) -> None:
        """Add to `weave` how the wide findings change for what it touches (or for every node)."""
        if self.wide is None:
            if everything:
                self._replace(weave, None, [])
            return
        after = Overlay(self.store, *weave.pending(""))
        if everything:
            self._replace(weave, None, self._all_found(weave, after))
            return
        if not weave.touched:
            return
        focus = self.wide.wide_touched(weave.touched, after.match)
        focus |= self.wide.wide_touched(weave.touched, Overlay(self.store, (), ()).match)
        quarantine = NamedNode(self.store.names.quarantine)
        for line in weave.touched:
            value = line.split(" ", 2)[2]
            if value[0] == "<":
                node = value[1:-1]
                if node not in focus and next(self.store.match(None, _FOCUS, NamedNode(node), quarantine), None):
                    focus.add(node)
        if focus:
            self._replace(weave, focus, self.wide.wide(after.match, focus))

    def _all_found(self, weave: Weave, after: Overlay) -> list[Violation]:
        assert self.wide is not None
        if self.speakers is None:
            return self.wide.wide(after.match, None)
        for graph, lines in weave.change().added.items():
            if graph and self.store.names.merged(graph):
                self.speakers.saw(lines)
        return self.wide.wide(after.match, None, speakers=self.speakers)

    def _replace(self, weave: Weave, focus: set[str] | None, found: list[Violation]) -> None:
        names = self.store.names
        before = set(self._wide_before(focus))
        who: dict[str, list[str]] = {}
        after: set[str] = set()
        for one in found:
            if one.focus not in who:
                who[one.focus] = speakers(self.store, weave, one.focus)
            after |= result(names, one, who[one.focus], "wide")
        weave.system(names.quarantine, before, after)

    def _wide_before(self, focus: set[str] | None) -> Iterator[str]:
        store, names = self.store, self.store.names
        quarantine, nodes = NamedNode(names.quarantine), set()
        if focus is None:
            for quad in store.match(None, NamedNode(REPORTED[1:-1]), Literal("wide"), quarantine):
                nodes.add(quad.subject.value)
        else:
            for node in focus:
                for quad in store.match(None, _FOCUS, NamedNode(node), quarantine):
                    nodes.add(quad.subject.value)
        for node in nodes:
            lines = spelled(store, node, names.quarantine)
            if any(line.endswith(f'{REPORTED} "wide"') for line in lines):
                yield from lines


class _Stage:
    """What holds, as a rule may read it: the default graph of the stage."""

    def __init__(self, stage: Any) -> None:
        self._stage = stage

    def match(self, s: Any = None, p: Any = None, o: Any = None) -> Iterator[Any]:
        return (quad.triple for quad in self._stage.match(s, p, o, _DEFAULT))

    def query(self, text: str) -> Any:
        return self._stage.query(text)


class _Store:
    """What holds now."""

    def __init__(self, store: Graph) -> None:
        self._store = store

    def match(self, s: Any = None, p: Any = None, o: Any = None) -> Iterator[Any]:
        return (quad.triple for quad in self._store.match(s, p, o, _DEFAULT))

    def query(self, text: str) -> Any:
        return self._store.query(text)


def shared_stage(store: Graph) -> Any:
    """The one stage of a store, made when a rule first needs it and kept while the store is open."""
    found = getattr(store, "_sync_stage", None)
    if found is None:
        found = store.stage()
        store._sync_stage = found  # type: ignore[attr-defined]
    return found


def forget_stage(store: Graph) -> None:
    """The store was written anew, and its stages with it: the next rule makes another."""
    if hasattr(store, "_sync_stage"):
        del store._sync_stage


def derived_graph(names: Names, rule: str, line: str) -> str:
    """The graph of what the rule derives about the subject of this statement."""
    subject = line[1 : line.index(">")]
    return names.derived(rule, subject.removeprefix(names.base) or subject)


def speakers(store: Graph, weave: Weave, focus: str) -> list[str]:
    """The record graphs that will say something about a node, or name it if none does; rules only if no record does."""
    node = NamedNode(focus)
    found = set(_speaking(store, weave, node, subject=True))
    if not found:
        found = set(_speaking(store, weave, node, subject=False))
    records = {graph for graph in found if not graph.startswith(f"{store.names.base}record/rule/")}
    return sorted(records or found)


def _speaking(store: Graph, weave: Weave, node: NamedNode, *, subject: bool) -> Iterator[str]:
    merged = store.names.merged
    quads = store.match(node, None, None, None) if subject else store.match(None, None, node, None)
    for quad in quads:
        graph = quad.graph_name
        if isinstance(graph, NamedNode) and merged(graph.value):
            removed, _ = weave.pending(graph.value)
            if not removed or f"{quad.subject} {quad.predicate} {quad.object}" not in removed:
                yield graph.value
    start, end = f"<{node.value}> ", f" <{node.value}>"
    yield from weave.about(start if subject else end)
