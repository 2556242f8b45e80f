"""The best explanation of a graph is a question somebody asked of it: the closest ones are shown, and some are made up.

Made up are only questions whose answer the profile of the graph already promises: a class has instances, a property has
that value. They are the same for the same profile.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from pyoxigraph import NamedNode

from sparql.index.folding import humps, tokens
from sparql.question.generating import Example
from sparql.question.schema import Schema, Use
from sparql.syntax import SyntaxProblem, parse, reads
from sparql.syntax.tree import Query

PACKAGED = Path(__file__).parents[1] / "examples"
MOST, LONGEST = 500, 64 * 1024
"""How many examples of a folder are read, and how many bytes one has, at most."""
MADE = 60
"""How many are made up at most."""
_SHORT = 3
_RDF = ("http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2000/01/rdf-schema#")
_LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


def read(folder: Path) -> list[Example]:
    """The `.rq` files of a folder and those in it, by path; the first comment of each is its question."""
    found = []
    for path in sorted(folder.rglob("*.rq"))[:MOST] if folder.is_dir() else ():
        try:
            if path.stat().st_size > LONGEST:
                continue
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        question = _question(text)
        if question:
            found.append(Example(question, text.strip()))
    return found


def usable(examples: Iterable[Example], schema: Schema, base: str) -> list[Example]:
    """Those that parse and read only predicates the graph has: what is said of others says nothing of it."""
    found = []
    known = {*schema.properties, *schema.classes}
    for one in examples:
        try:
            tree = parse(one.sparql, prefixes=dict(schema.prefixes), base=base, only="query")
        except SyntaxProblem:
            continue
        assert isinstance(tree, Query)
        predicates = reads(tree).predicates
        if predicates is None or all(iri in known or iri.startswith(_RDF) for iri in predicates):
            found.append(one)
    return found


def closest(examples: Sequence[Example], question: str, most: int) -> list[Example]:
    """The examples whose questions are most like `question`, the best first; none without a word in common."""
    if not examples:
        return []
    bags = [_bag(one.question) for one in examples]
    rare = Counter(word for bag in bags for word in bag)
    weight = {word: math.log((1 + len(bags)) / (1 + count)) + 1 for word, count in rare.items()}
    asked = _bag(question)
    scored = []
    for at, bag in enumerate(bags):
        both = sum(min(asked[word], bag[word]) * weight[word] ** 2 for word in asked.keys() & bag.keys())
        if both:
            scored.append((both / (_length(asked, weight) * _length(bag, weight)), -at))
    scored.sort(reverse=True)
    return [examples[-at] for _, at in scored[:most]]


def made_up(schema: Schema) -> list[Example]:
    """Questions and queries that the profile promises an answer to: counts, lists, values, links, extremes."""
    found: list[Example] = []
    for iri, one in sorted(schema.classes.items(), key=lambda pair: (-pair[1].instances, pair[0])):
        if not one.instances:
            continue
        name = one.name.label or iri
        node = _node(iri)
        found.append(Example(f"How many {name} are there?", f"SELECT (COUNT(DISTINCT ?x) AS ?count) {{ ?x a {node} }}"))
        for use in schema.of(iri):
            found += _of(name, node, use, schema)
        if len(found) >= MADE:
            break
    return found[:MADE]


def _of(name: str, node: str, use: Use, schema: Schema) -> list[Example]:
    known = schema.properties.get(use.property)
    if known is None or use.property == _LABEL:
        return []
    called, property = known.name.label or use.property, _node(use.property)
    if use.values or use.top:
        value = use.values[0] if use.values else use.top[0][0]
        shown = value.partition("^^")[0].strip('"') if value.startswith('"') else value
        return [
            Example(
                f"Which {name} have the {called} {shown}?",
                f"SELECT DISTINCT ?x ?label {{ ?x a {node} ; {property} {value} OPTIONAL {{ ?x <{_LABEL}> ?label }} }}",
            )
        ]
    if any(not one.literal for one in use.ranges):
        return [
            Example(
                f"Which {name} has the most {called}?",
                f"SELECT ?x (COUNT(?y) AS ?count) {{ ?x a {node} ; {property} ?y }}"
                " GROUP BY ?x ORDER BY DESC(?count) LIMIT 1",
            )
        ]
    return []


def _question(text: str) -> str:
    for line in text.splitlines():
        if line.strip():
            return line.strip().lstrip("#").strip() if line.lstrip().startswith("#") else ""
    return ""


def _node(iri: str) -> str:
    return str(NamedNode(iri))


def _bag(text: str) -> Counter[str]:
    """The words of a text and the pairs of them; plurals count as singulars."""
    words = [_stem(word) for word in tokens(humps(text))]
    return Counter([*words, *(f"{one} {two}" for one, two in zip(words, words[1:], strict=False))])


def _stem(word: str) -> str:
    for end in ("ies", "es", "s"):
        if word.endswith(end) and len(word) - len(end) >= _SHORT:
            return word[: -len(end)] + ("y" if end == "ies" else "")
    return word


def _length(bag: Counter[str], weight: dict[str, float]) -> float:
    return math.sqrt(sum((count * weight.get(word, 1.0)) ** 2 for word, count in bag.items())) or 1.0
