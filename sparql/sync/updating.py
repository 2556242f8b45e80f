"""A write over HTTP is one commit: to the writer's own record, merged like any source's, and to graphs nobody owns.

What a token writes to the default graph of a merged store is what its record says: source `token`, key the token's
name. No source can read it again, so it stays as it is until its token, `forget` or `erase` changes it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from pyoxigraph import DefaultGraph, NamedNode

from ontology.facts import GT, RDF, SH, Facts
from ontology.violation import INFO, Violation
from ontology.vocabulary import UNOWNED_TERM
from sparql.log import Change, LogError, LogReader, labelled
from sparql.names import TOKEN
from sparql.sync.consequences import Consequences, Wide
from sparql.sync.edit import Edit, Refused
from sparql.sync.entries import PLAN, Claim, journal_entry, results, scope_entry, source_entry
from sparql.sync.evidence import EVIDENCE
from sparql.sync.known import Graph, accepted_claim, spelled
from sparql.sync.plan import Plan, SyncReport
from sparql.sync.steps import Tally, result_lines
from sparql.sync.syncing import Applying, _now, records_of
from sparql.sync.weave import Weave
from transforms.rules import Rule

SHOWN = 100  # violations in an answer
KEPT = 20  # statements that are quoted as kept, each with who says it
_TYPE, _EVIDENCE = NamedNode(RDF + "type"), NamedNode(GT + "Evidence")
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Author:
    """Who writes, and where: `graphs` are bare IRIs, "" the default graph, "*" all."""

    name: str
    graphs: Sequence[str]
    reads: bool = True

    def may(self, graph: str) -> bool:
        return "*" in self.graphs or graph in self.graphs


@dataclass(frozen=True)
class Must:
    """What must be so of a graph ("": the default one) for the write to happen."""

    graph: str = ""
    exists: bool | None = None
    untouched_since: int | None = None


@dataclass
class Written:
    """What became of a write: the commit that holds it (the newest, when there was nothing to do)."""

    commit: int
    time: str
    added: int = 0
    removed: int = 0
    created: bool = False
    graphs: list[str] = field(default_factory=list)
    kept: list[dict[str, Any]] = field(default_factory=list)
    kept_count: int = 0
    notes: list[str] = field(default_factory=list)

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def there(graph: str) -> str:
    """The statement that a graph is there, in the graph of such statements."""
    return f"<{graph}> <{RDF}type> <{GT}Graph>"


def write(
    store: Any, edit: Edit, author: Author, *, merge: bool, plan: Plan, rules: Iterable[Rule] = (),
    wide: Wide | None = None, must: Must | None = None,
) -> Written:  # fmt: skip
    """The edit is committed, whole, or nothing is. Raises Refused, and what the store raises."""
    own = store.names.record(TOKEN, author.name) if merge else None
    _may(store, edit, author, own)
    if must is not None:
        _check(store, must)
    made = _Write(store, edit, author, own, plan)
    return made.merged(rules, wide) if merge else made.plain()


def _may(store: Graph, edit: Edit, author: Author, own: str | None) -> None:
    """Raise Refused when one of the graphs is not the author's to write."""
    names = store.names
    for graph in sorted(edit.graphs()):
        target = "" if graph == own else graph
        if target.startswith(names.system):
            raise Refused("read-only", f"<{graph}> is a system graph, which Graphtide keeps itself.", graph=graph)
        found = names.parse(target) if target else None
        if found is not None:
            source, key = found
            what = f"the rule {source[5:]!r} derives" if source.startswith("rule/") else f"the source {source!r} says"
            raise Refused(
                "read-only", f"<{graph}> is what {what} (record {key!r}). Change it there.", graph=graph, source=source
            )
        if not author.may(target):
            allowed = ", ".join("the default graph" if one == "" else f"<{one}>" for one in author.graphs) or "none"
            shown = f"<{target}>" if target else "the default graph"
            raise Refused(
                "not-allowed", f"The token {author.name!r} may not write to {shown}, only to: {allowed}.", graph=target
            )
    if edit.looked and not author.reads:
        raise Refused(
            "not-allowed", f"The token {author.name!r} may not read, and this update tells what the graph says."
        )


def _check(store: Any, must: Must) -> None:
    shown = f"<{must.graph}>" if must.graph else "The default graph"
    if must.exists is not None and (not must.graph or store.exists(must.graph)) != must.exists:
        why = "is there already" if not must.exists else "is not there"
        raise Refused("precondition-failed", f"{shown} {why}.", graph=must.graph)
    if must.untouched_since is not None and must.untouched_since < store.head:
        reader = LogReader(store.state, must.untouched_since, until=store.head)
        try:
            touched = any(
                entry.change.removed.get(must.graph) or entry.change.added.get(must.graph) for entry in reader.entries()
            )
        except LogError:
            touched = True
        finally:
            reader.close()
        if touched:
            raise Refused("precondition-failed", f"{shown} was changed meanwhile. Read it again.", graph=must.graph)


class _Write:
    """One write in the making."""

    def __init__(self, store: Any, edit: Edit, author: Author, own: str | None, plan: Plan) -> None:
        self.store, self.edit, self.author, self.own, self.plan = store, edit, author, own, plan
        self.names = store.names
        self.start = _now()
        self.kept = list(edit.kept)
        self.out = Written(store.head, store.head_time, kept_count=edit.kept_count)

    # -- a plain store

    def plain(self) -> Written:
        removed: dict[str, frozenset[str]] = {}
        added: dict[str, frozenset[str]] = {}
        for graph in self._written():
            removed[graph], added[graph] = self._difference(graph)
        return self._commit(removed, added, Change(removed, added))

    # -- a merged store

    def merged(self, rules: Iterable[Rule], wide: Wide | None) -> Written:
        store, names = self.store, self.names
        for side in (self.edit.added, self.edit.whole):
            for found in side.values():
                if any(map(labelled, found)):
                    raise Refused("update-error", "A triple cannot be a value here: only a plain store keeps those.")
        consequences = Consequences(store, rules, wide)
        weave = Weave(store, self.plan.holds_confidence)
        tally = Tally()
        removed: dict[str, frozenset[str]] = {}
        added: dict[str, frozenset[str]] = {}
        for graph in self._written():
            gone, come = self._difference(graph)
            removed[graph], added[graph] = gone, come
            if graph == self.own:
                self._record(weave, gone, come, tally)
            else:
                weave.system(graph, gone, come)
        commit = names.commit(store.head + 1)
        try:
            consequences.follow(weave, commit)
            if weave.size:
                tally.added = sum(map(len, added.values()))
                tally.removed = sum(map(len, removed.values()))
                Applying(store, [], consequences, None)._provenance(weave, {TOKEN: tally}, self.start, [TOKEN])
            return self._commit(removed, added, weave.change())
        finally:
            consequences.settle()

    def _record(self, weave: Weave, gone: frozenset[str], come: frozenset[str], tally: Tally) -> None:
        """The author's record says `come` more and `gone` less, if it may."""
        store, names, own = self.store, self.names, self.own
        assert own is not None
        if not gone and not come:
            return
        claim = accepted_claim(store, own)
        version = self.plan.version
        scope = names.scope(TOKEN, self.author.name)
        known = spelled(store, scope, names.cursor)
        everything = claim is not None and f'<{scope}> {PLAN} "{version}"' not in known
        subjects = {line[: line.index(" ")] for side in (gone, come) for line in side}
        # When shapes or vocabulary changed since, all of it is judged anew.
        whole = (store.statements(own) - gone) | come if everything else None
        found = self._judged(self._about(subjects, gone, come) if whole is None else whole)
        evident = next(store.match(None, _TYPE, _EVIDENCE, NamedNode(own)), None) is not None
        if evident or any(line.endswith(EVIDENCE) for line in come):
            before = store.statements(own)
            weave.replace(own, before, (before - gone) | come)
        else:
            weave.replace(own, gone, come)
        left = bool(come) or any(
            f"{quad.subject} {quad.predicate} {quad.object}" not in gone
            for quad in store.match(None, None, None, NamedNode(own))
        )
        entry = spelled(store, own, names.journal)
        if left:
            digest = _digest(claim.hash if claim is not None else "", gone, come)
            made = Claim(self.author.name, digest, (f"{TOKEN}/{self.author.name}",))
            weave.system(names.journal, entry, journal_entry(names, TOKEN, own, made, names.commit(store.head + 1)))
            weave.system(names.cursor, known, scope_entry(names, TOKEN, self.author.name, cursor=None, plan=version))
        else:
            weave.system(names.journal, entry, set())
            weave.system(names.cursor, known, set())
        weave.system(
            names.quarantine, self._reported(own, None if everything else subjects), results(names, own, found)
        )
        count = records_of(store, TOKEN)
        records = count + (left and claim is None) - (not left and claim is not None)
        about = spelled(store, names.source(TOKEN), names.cursor)
        entry = source_entry(names, TOKEN, records=records, plan=version, held="", notes=()) if records else set()
        weave.system(names.cursor, about, entry)
        tally.changed, tally.records, tally.graphs = int(left), records - count, 1
        tally.gone = int(not left)

    def _about(self, subjects: set[str], gone: frozenset[str], come: frozenset[str]) -> frozenset[str]:
        """What the record will say of these subjects: a record is judged subject by subject (ontology/shapes.py)."""
        out: set[str] = set(come)
        for subject in subjects:
            out |= spelled(self.store, subject[1:-1], str(self.own)) - gone
        return frozenset(out)

    def _judged(self, after: frozenset[str]) -> list[Violation]:
        """What is reported of the record. Raises Refused when it is not accepted."""
        facts = Facts(str(self.own), after, f"{TOKEN}/{self.author.name}")
        found = list(self.plan.vocabulary.check(facts)) if self.plan.vocabulary is not None else []
        if self.plan.shapes is not None and after:
            found += self.plan.shapes.local([facts])
        refusing = [one for one in found if one.refuses]
        if refusing:
            first = refusing[0]
            more = f" and {len(refusing) - 1} more" if len(refusing) > 1 else ""
            raise Refused(
                "rejected", f"Nothing was written: {first.message}{more}.".replace("..", "."),
                violations=[one.to_dict() for one in refusing[:SHOWN]],
            )  # fmt: skip
        self.out.notes += sorted({one.message for one in found if _unowned(one)})
        return [one for one in found if not _unowned(one)]

    def _reported(self, own: str, subjects: set[str] | None) -> set[str]:
        lines = result_lines(self.store, own)
        if subjects is None or not lines:
            return lines
        focus = f" <{SH}focusNode> "
        about = {line.split(" ", 1)[0]: line.split(" ", 2)[2] for line in lines if focus in line}
        return {line for line in lines if about.get(line.split(" ", 1)[0]) in {None, *subjects}}

    # -- both

    def _written(self) -> Iterator[str]:
        yield from sorted({*self.edit.removed, *self.edit.added, *self.edit.whole})

    def _difference(self, graph: str) -> tuple[frozenset[str], frozenset[str]]:
        """(statements that go, statements that come): those that make a difference."""
        store, edit = self.store, self.edit
        if graph in edit.whole:
            before, after = store.statements(graph), frozenset(edit.whole[graph])
            return before - after, after - before
        gone, come = frozenset(edit.removed.get(graph, ())), frozenset(edit.added.get(graph, ()))
        return store.present(gone, graph), come - store.present(come, graph)

    def _commit(
        self, removed: Mapping[str, frozenset[str]], added: Mapping[str, frozenset[str]], change: Change
    ) -> Written:
        store, names, out = self.store, self.names, self.out
        told_gone, told = self._told(removed, added)
        change = Change(
            {**change.removed, names.graphs: change.removed.get(names.graphs, _NONE) | told_gone},
            {**change.added, names.graphs: change.added.get(names.graphs, _NONE) | told},
        )
        own = self.own
        out.removed, out.added = sum(map(len, removed.values())), sum(map(len, added.values()))
        out.graphs = sorted("" if graph == own else graph for graph in {*removed, *added, *self.edit.there})
        out.created = any(self._new(graph) for graph in out.graphs)
        if own is not None:
            out.kept = list(self._kept(removed.get(own, _NONE)))
        if change:
            report = SyncReport(
                TOKEN, changed=int(out.added > 0), added=out.added, removed=out.removed, commit=store.head + 1,
                notes=(f"written by {self.author.name}",),
            ).to_dict()  # fmt: skip
            made = store.commit(change, [report], blank=own is None)
            out.commit, out.time = made.id, made.time
        else:
            out.commit, out.time = store.head, store.head_time
        return out

    def _new(self, graph: str) -> bool:
        if graph:
            return not self.store.exists(graph)
        name = NamedNode(self.own) if self.own is not None else DefaultGraph()
        return next(self.store.match(None, None, None, name), None) is None

    def _told(
        self, removed: Mapping[str, frozenset[str]], added: Mapping[str, frozenset[str]]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """How what is said of graphs that may be empty changes, and is said again for those that were emptied."""
        store, names = self.store, self.names
        gone, come = set(), set()
        for graph, is_there in self.edit.there.items():
            known = bool(store.present((there(graph),), names.graphs))
            if is_there and (not known or removed.get(graph)):
                come.add(there(graph))
            elif known and not is_there:
                gone.add(there(graph))
        for graph, lost in removed.items():
            if graph and graph != self.own and lost and not added.get(graph) and graph not in self.edit.there:
                come |= store.present((there(graph),), names.graphs)  # see Change.found
        return frozenset(gone), frozenset(come)

    def _kept(self, removed: Iterable[str]) -> Iterator[dict[str, Any]]:
        """Statements that go from the author's record, or were to go, and that others say."""
        shown = 0
        for statement in dict.fromkeys((*self.kept, *sorted(removed))):
            others = [graph for graph in self.store.asserted_by(statement) if graph != self.own]
            if not others:
                continue
            self.out.kept_count += self.own in self.edit.whole
            if shown < KEPT:
                shown += 1
                yield {"statement": statement, "said_by": [self._who(graph) for graph in sorted(others)[:KEPT]]}

    def _who(self, graph: str) -> dict[str, Any]:
        source, key = self.names.parse(graph) or ("", "")
        claim = accepted_claim(self.store, graph)
        return {
            "source": source, "key": key, "graph": graph,
            "locator": claim.locators[0].strip('"') if claim is not None and claim.locators else "",
        }  # fmt: skip


def _digest(before: str, gone: Iterable[str], come: Iterable[str]) -> str:
    """A hash of the set of statements, from that of the set before: the sum of theirs."""
    total = int(before or "0", 16)
    for sign, side in ((-1, gone), (1, come)):
        for line in side:
            total += sign * int.from_bytes(blake2b(line.encode(), digest_size=16).digest(), "big")
    return f"{total % 2**128:032x}"


def _unowned(one: Violation) -> bool:
    return one.severity == INFO and one.constraint == UNOWNED_TERM


__all__ = ["Author", "Must", "Written", "there", "write"]
