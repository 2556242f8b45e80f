"""What an update comes to is found out on a copy, each operation after the one before: a net edit, and nothing else.

The copy is a replica of the graph that takes the effects of an operation only to show them to the next, and gives
them back. In a merged store the default graph is what holds: a write to it is a write to the writer's own record, so
a statement that another record says is still there for the next operation. Evidence and rules count at the commit.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import pyoxigraph
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, QuerySolutions, Triple

from ontology.facts import spell_term
from sparql.log import Change
from sparql.names import Names
from sparql.store import reading
from sparql.sync import document, template
from sparql.sync.edit import Edit, Refused
from sparql.syntax import SyntaxProblem, parse, tree, walk

if TYPE_CHECKING:
    from sparql.sync.needed import Needed


class Fetch(Protocol):
    """Gets a document for LOAD; raises Refused."""

    def __call__(self, url: str) -> tuple[str, bytes]: ...


@dataclass
class Task:
    """One update: its text and what it may do. `own` is the record of whoever writes, None in a plain store.

    `within` is the one graph a PATCH is about. `limit` is the most statements it may touch.
    """

    text: str
    base: str
    prefixes: Mapping[str, str]
    default_graphs: Sequence[str] = ()
    named_graphs: Sequence[str] = ()
    own: str | None = None
    within: str | None = None
    limit: int = 500_000
    fetch: Fetch | None = None
    needed: Needed | None = None


def read(task: Task) -> tree.Update:
    """The tree of the update. Raises Refused with line and column for what is none."""
    try:
        found = parse(task.text, prefixes=dict(task.prefixes), base=task.base, only="update")
    except SyntaxProblem as wrong:
        code = "too-deep" if wrong.limit else "update-error"
        raise Refused(code, wrong.message, line=wrong.line, column=wrong.column, token=wrong.token) from wrong
    assert isinstance(found, tree.Update)
    uses = any(isinstance(one, tree.Modify) and (one.using or one.graph is not None) for one in found.operations)
    if uses and (task.default_graphs or task.named_graphs):
        raise Refused(
            "dataset-conflict",
            "The update says USING or WITH, and the request using-graph-uri or using-named-graph-uri. Use one of them.",
        )
    for node in walk(found):
        if isinstance(node, tree.Service):
            raise Refused(
                "service-off", "SERVICE is not done in an update: bring that data in as a source, or with LOAD."
            )
    return found


class Evaluation:
    """One update, operation by operation, on `store`, which is as it was before once `undo` was called."""

    def __init__(self, store: pyoxigraph.Store, task: Task, names: Names) -> None:
        self.store, self.task, self.names = store, task, names
        self.edit = Edit()
        self.done = 0
        """Statements that were applied for the next operation to see."""
        self._back: list[Change] = []
        self._was: dict[str, bool] = {}
        self._prologue = ""

    def run(self) -> Edit:
        """The net edit. Raises Refused."""
        update = read(self.task)
        steps = [step for step in update.steps if step.operation is not None]
        for step in update.steps:
            self._prologue += "".join(
                self.task.text[one.span[0] : one.span[1]] + "\n"
                for one in step.prologue
                if not isinstance(one, tree.Version)
            )
            if step.operation is not None:
                self._do(step.operation, last=step is steps[-1])
        return self.edit

    def undo(self) -> None:
        """The store is as it was."""
        for change in reversed(self._back):
            change.apply(self.store)
        for graph, was in self._was.items():
            node = NamedNode(graph)
            if was:
                self.store.add_graph(node)
            elif next(self.store.quads_for_pattern(None, None, None, node), None) is None:
                self.store.remove_graph(node)
        self._back, self._was = [], {}

    # -- operations

    def _do(self, operation: tree.Operation, *, last: bool) -> None:
        mine = _Step({}, {}, {}, set())
        if isinstance(operation, tree.InsertData):
            self._fill(mine.added, operation.quads, [{}])
        elif isinstance(operation, tree.DeleteData):
            self._fill(mine.removed, operation.quads, [{}])
        elif isinstance(operation, tree.DeleteWhere):
            self._modify(mine, self._pattern(operation.quads), operation.quads, (), None, ())
        elif isinstance(operation, tree.Modify):
            where = self.task.text[operation.where.span[0] : operation.where.span[1]]
            self._modify(mine, where, operation.delete or (), operation.insert or (), operation.graph, operation.using)
        elif isinstance(operation, tree.Clear):
            self._clear(mine, operation)
        elif isinstance(operation, tree.Create):
            graph = operation.graph.value
            if not self._exists(graph):
                mine.there[graph] = True
            elif not operation.silent:
                raise Refused("graph-exists", f"<{graph}> is there already. Use CREATE SILENT, or leave it out.")
            self.edit.depends = True
        elif isinstance(operation, tree.Transfer):
            self._transfer(mine, operation)
        else:
            self._load(mine, operation)
        self._put(mine, last=last)

    def _modify(
        self, mine: _Step, where: str, delete: tree.Quads, insert: tree.Quads, graph: tree.Iri | None,
        using: Sequence[tree.From],
    ) -> None:  # fmt: skip
        self.edit.depends = self.edit.looked = True
        within = graph.value if graph is not None else self.task.within or ""
        gone, come = template.lines(delete, within), template.lines(insert, within)
        names = sorted(template.holes([*gone, *come]))
        options: dict[str, Any] = {}
        default = [one.iri.value for one in using if not one.named] or list(self.task.default_graphs)
        named = [one.iri.value for one in using if one.named] or list(self.task.named_graphs)
        if default or named:
            options["default_graph"] = [NamedNode(iri) for iri in default]
            options["named_graphs"] = [NamedNode(iri) for iri in named]
        elif within:
            options["default_graph"] = [NamedNode(within)]
        shown = " ".join(f"?{name}" for name in names) or "(1 AS ?graphtide_any)"
        solutions = self._solutions(f"{self._prologue}SELECT {shown} WHERE {where}", options)
        if isinstance(solutions, QuerySolutions):
            for row in self._rows(solutions, names):
                blank = self._blanks(uuid.uuid4().hex)
                for graph_name, statement in template.filled(gone, row, blank):
                    mine.removed.setdefault(graph_name, set()).add(statement)
                for graph_name, statement in template.filled(come, row, blank):
                    mine.added.setdefault(graph_name, set()).add(statement)
                self._bound(mine)

    def _solutions(self, text: str, options: dict[str, Any]) -> Any:
        try:
            return self.store.query(text, base_iri=self.task.base, prefixes=dict(self.task.prefixes), **options)
        except SyntaxError as wrong:  # ours allowed what the engine does not
            raise Refused("update-error", f"The engine cannot evaluate the pattern: {wrong.msg}") from wrong

    def _rows(self, solutions: QuerySolutions, names: Sequence[str]) -> Iterator[dict[str, str]]:
        spelled: dict[Any, str] = {}
        try:
            for solution in solutions:
                row = {}
                for name in names:
                    term = solution[name]
                    if term is not None:
                        text = spelled.get(term)
                        if text is None:
                            text = self._spell(term)
                            if len(spelled) < 100_000:
                                spelled[term] = text
                        row[name] = text
                yield row
        except RuntimeError as wrong:
            raise Refused("update-error", f"The pattern cannot be evaluated: {wrong}") from wrong

    def _spell(self, term: Any) -> str:
        if isinstance(term, (NamedNode, Literal)):
            return spell_term(term)
        if isinstance(term, BlankNode):
            return str(term) if self.task.own is None else f"<{self.names.skolem}{term.value}>"
        assert isinstance(term, Triple)
        inner = (self._spell(one) for one in (term.subject, term.predicate, term.object))
        return f"<<( {' '.join(inner)} )>>"

    def _fill(self, into: dict[str, set[str]], quads: tree.Quads, rows: Iterable[Mapping[str, str]]) -> None:
        ready = template.lines(quads, self.task.within or "")
        for row in rows:
            for graph, statement in template.filled(ready, row, self._blanks(uuid.uuid4().hex)):
                into.setdefault(graph, set()).add(statement)

    def _blanks(self, scope: str) -> Callable[[str], str]:
        made: dict[str, str] = {}

        def blank(key: str) -> str:
            if key not in made:
                made[key] = f"{scope}{len(made):x}"
            return f"_:b{made[key]}" if self.task.own is None else f"<{self.names.skolem}{made[key]}>"

        return blank

    def _pattern(self, quads: tree.Quads) -> str:
        """The template of DELETE WHERE as a pattern."""
        parts = []
        for one in quads:
            text = self.task.text[one.span[0] : one.span[1]].rstrip()
            parts.append(text if isinstance(one, tree.QuadsIn) else text.removesuffix(".") + " .")
        return "{ " + "\n".join(parts) + " }"

    def _clear(self, mine: _Step, operation: tree.Clear) -> None:
        self.edit.depends = True
        drop = operation.verb == "DROP"
        if isinstance(operation.target, tree.Iri):
            graph = operation.target.value
            if not self._exists(graph) and not operation.silent:
                raise Refused("no-such-graph", f"There is no graph <{graph}>. Use {operation.verb} SILENT.")
            self._empty(mine, graph, drop=drop)
            return
        if operation.target in ("NAMED", "ALL"):
            for graph in self._plain_graphs():
                self._empty(mine, graph, drop=drop)
        if operation.target in ("DEFAULT", "ALL"):
            mine.empty.add(self.task.own or "")

    def _empty(self, mine: _Step, graph: str, *, drop: bool) -> None:
        mine.empty.add(graph)
        if graph != self.task.own and self._exists(graph):
            mine.there[graph] = not drop

    def _plain_graphs(self) -> list[str]:
        """The named graphs that ALL and NAMED mean: those that are nobody's record and not ours."""
        found = (graph.value for graph in self.store.named_graphs() if isinstance(graph, NamedNode))
        return [name for name in found if not name.startswith(self.names.system) and not self.names.merged(name)]

    def _transfer(self, mine: _Step, operation: tree.Transfer) -> None:
        self.edit.depends = self.edit.looked = True
        source = operation.source.value if operation.source is not None else ""
        target = operation.target.value if operation.target is not None else ""
        if source and not self._exists(source):
            if operation.silent:
                return
            raise Refused("no-such-graph", f"There is no graph <{source}> to {operation.verb.lower()} from.")
        if source == target:
            return
        found = self._content(source)
        if operation.verb in ("COPY", "MOVE"):
            before = self._content(target if target else self.task.own or "")
            mine.removed[target] = before - found
        mine.added[target] = found
        if target and target != self.task.own and not found:
            mine.there[target] = True
        if operation.verb == "MOVE":
            if source:
                self._empty(mine, source, drop=True)
            else:
                mine.empty.add(self.task.own or "")
        self._bound(mine)

    def _load(self, mine: _Step, operation: tree.Load) -> None:
        url = operation.source.value
        try:
            if self.task.fetch is None:
                words = f"LOAD <{url}> is not allowed here. Name what may be loaded in `load_allow` under [server]."
                raise Refused("load-off", words)
            kind, body = self.task.fetch(url)
            found = statements(body, kind, url, self.task, self.names)
        except Refused:
            if operation.silent:
                return
            raise
        mine.added[operation.into.value if operation.into is not None else self.task.within or ""] = found
        self._bound(mine)

    # -- effects

    def _put(self, mine: _Step, *, last: bool) -> None:
        """The step counts, and is applied when another is to see it."""
        self._bound(mine)
        before = {graph: self._exists(graph) for graph in (*mine.graphs(), *mine.there, *mine.empty) if graph}
        shown = Change({}, {})
        removed: dict[str, frozenset[str]] = {}
        added: dict[str, frozenset[str]] = {}
        for graph in mine.graphs():
            gone, come = mine.removed.get(graph, set()), mine.added.get(graph, set())
            own = self.task.own
            if own is not None and graph in ("", own):
                said = reading.present(self.store, gone, own)
                self.edit.put(own, said, come)
                if gone:
                    self.edit.depends = True
                others = {one for one in said if self._said_by_others(one)}
                held = reading.present(self.store, gone - said, "") - come
                self.edit.keep(sorted(others - come) + sorted(held))
                removed[own] = removed.get(own, frozenset()) | said
                added[own] = added.get(own, frozenset()) | frozenset(come)
                removed[""] = removed.get("", frozenset()) | (said - others)
                added[""] = added.get("", frozenset()) | frozenset(come)
            else:
                self.edit.put(graph, gone, come)
                removed[graph], added[graph] = frozenset(gone), frozenset(come)
        self.edit.there.update(mine.there)
        for graph in mine.empty:
            self.edit.empty(graph)
        if len(self.edit) > self.task.limit:
            raise _too_many(self.task.limit)
        if last:
            return
        for graph in mine.empty:
            lost = frozenset(self._content(graph, bounded=False))
            removed[graph] = lost
            if graph and graph == self.task.own:
                alone = {one for one in lost if not self._said_by_others(one)}
                removed[""] = removed.get("", frozenset()) | alone
        shown = _effective(self.store, Change(removed, added))
        self.done += len(shown)
        for graph, was in before.items():
            self._was.setdefault(graph, was)
        self._back.append(Change(shown.added, shown.removed))
        shown.apply(self.store)
        for graph, there in mine.there.items():
            if there:
                self.store.add_graph(NamedNode(graph))
            else:
                self.store.remove_graph(NamedNode(graph))

    def _said_by_others(self, statement: str) -> bool:
        return any(graph != self.task.own for graph in reading.asserted_by(self.store, self.names, statement))

    def _exists(self, graph: str) -> bool:
        if graph == self.task.own:
            return True
        return self.store.contains_named_graph(NamedNode(graph))

    def _content(self, graph: str, *, bounded: bool = True) -> set[str]:
        name = NamedNode(graph) if graph else DefaultGraph()
        out: set[str] = set()
        for quad in self.store.quads_for_pattern(None, None, None, name):
            out.add(f"{quad.subject} {quad.predicate} {quad.object}")
            if bounded and len(out) > self.task.limit:
                raise _too_many(self.task.limit)
        return out

    def _bound(self, mine: _Step) -> None:
        if mine.size() > self.task.limit:
            raise _too_many(self.task.limit)


@dataclass
class _Step:
    removed: dict[str, set[str]]
    added: dict[str, set[str]]
    there: dict[str, bool]
    empty: set[str]
    """Graphs that say nothing afterwards; what else the step says of them comes before."""

    def graphs(self) -> list[str]:
        return list(dict.fromkeys((*self.removed, *self.added)))

    def size(self) -> int:
        return sum(map(len, self.removed.values())) + sum(map(len, self.added.values()))


def _effective(store: pyoxigraph.Store, change: Change) -> Change:
    removed, added = {}, {}
    for name, found in change.removed.items():
        removed[name] = reading.present(store, found - change.added.get(name, frozenset()), name)
    for name, found in change.added.items():
        added[name] = found - reading.present(store, found, name)
    return Change(removed, added)


def _too_many(limit: int) -> Refused:
    return Refused(
        "too-many", f"The update touches more than update_statements ({limit:,}) statements. Do it in parts.",
        limit="update_statements",
    )  # fmt: skip


def statements(data: bytes, kind: str, base: str, task: Task, names: Names, *, stable: bool = False) -> set[str]:
    """What an RDF document says, blank nodes renamed. Raises Refused; see `sparql.sync.document`."""

    def read(data: bytes, kind: str, base: str) -> set[str]:
        if task.needed is not None and kind.partition(";")[0].strip().lower() == "application/ld+json":
            data = task.needed.inlined(data, base)
        return document.said(data, kind, base, names if task.own is not None else None, task.limit, stable=stable)

    if task.needed is None:
        return read(data, kind, base)
    from sparql.sync.needed import NotHad

    try:
        found = read(data, kind, base)
        return found | task.needed.imported(found, read, ", ".join(document.FORMATS))
    except NotHad as no:
        raise Refused("not-had", str(no)) from no
