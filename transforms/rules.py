"""A rule derives what no single record can say: a pure function of the facts it declares to read, in layers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from pyoxigraph import NamedNode, Triple

from ontology.facts import RDF, FactsError, split, statement
from transforms.construct import Construct, ConstructError, parse_construct

RULES = "2"
_TYPE = RDF + "type"


class Holding(Protocol):
    """What holds, merged, as it will be after the commit."""

    def match(self, s: Any = None, p: Any = None, o: Any = None) -> Iterator[Any]:
        """The triples of a pattern; None is any."""
        ...

    def query(self, text: str) -> Any:
        """The answer to a SPARQL query, as pyoxigraph gives it."""
        ...


class Readable:
    """What a rule in Python may read of what holds: the statements it declares, and no others."""

    def __init__(self, graph: Holding, rule: str, reads: frozenset[str]) -> None:
        self._graph, self._rule, self._reads = graph, rule, reads

    def match(self, s: Any = None, p: Any = None, o: Any = None) -> Iterator[Any]:
        """The triples of a pattern (terms, None is any). Raises RuleError for a predicate the rule does not read."""
        if "*" in self._reads:
            yield from self._graph.match(s, p, o)
            return
        whole = {read for read in self._reads if " " not in read}
        if p is not None and p.value not in {read.partition(" ")[0] for read in self._reads}:
            raise RuleError(f"The rule {self._rule!r} reads <{p.value}>, which its `reads` does not name. Add it.")
        for read in sorted(self._reads):
            predicate, _, kind = read.partition(" ")
            if (p is not None and p.value != predicate) or (kind and predicate in whole):
                continue
            if not kind:
                yield from self._graph.match(s, NamedNode(predicate), o)
            elif o is None or o == NamedNode(kind):
                yield from self._graph.match(s, NamedNode(predicate), NamedNode(kind))


Derive = Callable[[Any], Iterable[Triple | str]]
"""From what a rule may read (`match(s, p, o)`) to triples or spelled statements."""


class RuleError(ValueError):
    """A rule that cannot be used: `str()` names it and the reason."""


class RuleCycle(RuleError):
    """Rules that wait for one another: `names` are theirs."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        ring = " -> ".join([*names, names[0]])
        super().__init__(
            f"The rules {ring} read what they derive, so there is no order to run them in. "
            "Let one derive a predicate that no rule before it reads."
        )


@dataclass(frozen=True)
class Rule:
    """`derive` gives triples (or spelled statements) from what holds; it is called when a fact it `reads` changes.

    `reads` and `writes` are predicate IRIs; `{rdf:type} {class}` is one class only. A rule that does not say what it
    writes may write nothing that it, or a rule before it, reads.
    """

    name: str
    reads: frozenset[str]
    derive: Derive
    writes: frozenset[str] = frozenset()
    version: str = ""
    construct: Construct | None = field(default=None, repr=False, compare=False)

    def concerns(self, line: str) -> bool:
        """Whether the rule reads this statement."""
        _, predicate, value = line.split(" ", 2)
        name = predicate[1:-1]
        return name in self.reads or "*" in self.reads or (name == _TYPE and f"{_TYPE} {value[1:-1]}" in self.reads)

    def derived(self, graph: Holding) -> frozenset[str]:
        """All that follows from what holds, spelled. Raises RuleError, whatever the rule's own code raises."""
        readable = graph if self.construct is not None else Readable(graph, self.name, self.reads)
        try:
            return frozenset(one if isinstance(one, str) else statement(one) for one in self.derive(readable))
        except RuleError:
            raise
        except FactsError as wrong:
            raise RuleError(f"The rule {self.name!r} derives what is no fact: {wrong}") from wrong
        except (Exception, SystemExit) as wrong:  # a user's code: whatever it raises is about this rule
            raise RuleError(f"The rule {self.name!r} failed: {type(wrong).__name__}: {wrong}") from wrong

    def follows(self, graph: Holding, changed: Iterable[str]) -> frozenset[str]:
        """What follows with the help of one of these statements; only for a rule that is `stepwise`."""
        assert self.construct is not None
        return self._asked(graph, self.construct.with_any(changed))

    def still(self, graph: Holding, derived: Iterable[str]) -> frozenset[str]:
        """Which of these statements follow from what holds; only for a rule that is `stepwise`."""
        assert self.construct is not None
        wanted = frozenset(derived)
        return self._asked(graph, self.construct.deriving(wanted)) & wanted

    @property
    def stepwise(self) -> bool:
        """Whether what a change brings and takes can be found without deriving everything again."""
        return self.construct is not None and self.construct.monotone

    def _asked(self, graph: Holding, queries: Iterable[str]) -> frozenset[str]:
        out: set[str] = set()
        try:
            for text in queries:
                out.update(statement(triple) for triple in graph.query(text))
        except FactsError as wrong:
            raise RuleError(f"The rule {self.name!r} derives what is no fact: {wrong}") from wrong
        except Exception as wrong:
            raise RuleError(f"The rule {self.name!r} failed: {type(wrong).__name__}: {wrong}") from wrong
        return frozenset(out)


def load_rq(name: str, text: str) -> Rule:
    """A SPARQL CONSTRUCT query as a rule. Raises RuleError naming the rule and what it may not do."""
    try:
        construct = parse_construct(text)
    except ConstructError as wrong:
        raise RuleError(f"The rule {name!r}: {wrong}") from wrong

    def derive(graph: Holding) -> Iterable[Triple]:
        found: Iterable[Triple] = graph.query(text)
        return found

    return Rule(name, construct.reads, derive, construct.writes, _version("rq", text), construct)


def python_rule(name: str, found: Any, *, version: str) -> Rule:
    """What `rules/x.py:rule` names, as a rule of that name: a Rule, or a function with `reads` (and `writes`).

    `version` is the hash of every project module it imports. Raises RuleError.
    """
    if isinstance(found, Rule):
        return Rule(found.name or name, frozenset(found.reads), found.derive, frozenset(found.writes),
                    _version("python", version, found.version), found.construct)  # fmt: skip
    reads = getattr(found, "reads", None)
    if not callable(found) or not reads or isinstance(reads, str):
        raise RuleError(
            f"The rule {name!r} is {type(found).__name__!r}, not a rule. "
            "Write rule = Rule(name, reads=frozenset([IRI of each predicate it reads]), derive=function)."
        )
    writes = frozenset(getattr(found, "writes", ()))
    return Rule(name, frozenset(reads), found, writes, _version("python", version))


def layered(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules in an order in which each comes after those whose facts it reads.

    Raises RuleCycle, or RuleError when two have one name.
    """
    by_name: dict[str, Rule] = {}
    for rule in rules:
        if rule.name in by_name:
            raise RuleError(f"Two rules are called {rule.name!r}. Rename one.")
        by_name[rule.name] = rule
    before = {
        name: sorted(other.name for other in by_name.values() if _feeds(other, rule)) for name, rule in by_name.items()
    }
    out: list[Rule] = []
    state: dict[str, int] = {}

    def visit(name: str, path: list[str]) -> None:
        if state.get(name) == 2:
            return
        if name in path:
            raise RuleCycle(path[path.index(name) :])
        for other in before[name]:
            visit(other, [*path, name])
        state[name] = 2
        out.append(by_name[name])

    for name in sorted(by_name, key=lambda name: (not by_name[name].writes, name)):
        visit(name, [])
    return tuple(out)


def trespass(rule: Rule, derived: Iterable[str], rules: Sequence[Rule]) -> str | None:
    """Why `rule` may not derive these: they are read by a rule that ran before it (or by itself), or not declared."""
    done = rules[: [other.name for other in rules].index(rule.name) + 1] if rule in rules else [rule]
    seen: set[tuple[str, str]] = set()
    for line in derived:
        _, predicate, value = split(line)
        kind = (predicate, value if predicate[1:-1] == _TYPE else "")
        if kind in seen:
            continue
        seen.add(kind)
        name = predicate[1:-1]
        if rule.writes and name not in rule.writes and f"{name} {value[1:-1]}" not in rule.writes:
            return f"The rule {rule.name!r} derives <{name}>, which its `writes` does not name. Add it."
        if not rule.writes:
            for other in done:
                if other.concerns(line):
                    who = "it reads itself" if other.name == rule.name else f"the rule {other.name!r} before it reads"
                    return f"The rule {rule.name!r} derives <{name}>, which {who}. Say what it `writes`."
    return None


def _feeds(rule: Rule, other: Rule) -> bool:
    return any(_meets(write, read) for write in rule.writes for read in other.reads)


def _meets(write: str, read: str) -> bool:
    if "*" in (write, read):
        return True
    written, _, class_written = write.partition(" ")
    reading, _, class_read = read.partition(" ")
    return written == reading and (not class_written or not class_read or class_written == class_read)


def _version(*parts: str) -> str:
    return hashlib.sha256("\n".join([RULES, *parts]).encode()).hexdigest()[:32]
