"""A question without a model over a million triples: how long it takes, and what a model would be told."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path

from bench.explore import BUILD, PRODUCTS, write
from bench.figure import Figure, percentile
from bench.process import run
from bench.shop import PREFIXES, Shop
from sparql.index.bringing import bring
from sparql.index.profile import Profile
from sparql.index.reading import Index
from sparql.names import Names
from sparql.query import Pool
from sparql.question.answer import Answer
from sparql.question.asking import Asker, Worlds
from sparql.question.graph import PoolGraph
from sparql.question.planner.names import Names as Called
from sparql.question.slicing import slice_of

BASE = "https://bench.example/"
TODAY = date(2026, 12, 1)
ASKED = 60
DRAWN = 500


def questions(graph: PoolGraph, chosen: random.Random) -> list[str]:
    """Questions whose words the graph has, of several kinds, about things drawn by chance."""
    classes = ("product", "feature", "vendor", "offer", "review", "person")
    rows = graph.query(
        PREFIXES + "SELECT ?l { ?x a v:Feature ; rdfs:label ?l FILTER(CONTAINS(STR(?l), ' ')) } ORDER BY ?x", rows=500
    ).rows
    features = [str(getattr(row[0], "value", "")) for row in rows]
    made = [f"How many {one}s are there?" for one in classes]
    for _ in range(ASKED):
        feature = chosen.choice(features)
        made += [
            f"Which products have the feature {feature}?",
            f"How many products have the feature {feature}?",
            f"Is there an offer with a price above {chosen.randrange(100, 9000)}?",
            "Which vendor has the most offers?" if chosen.random() < 0.1 else f"What is {feature}?",
        ]
    chosen.shuffle(made)
    return made[:ASKED]


def misspelt(name: str, chosen: random.Random) -> str:
    """A name with two letters of its longest word in the wrong order."""
    words = name.split()
    at = max(range(len(words)), key=lambda one: len(words[one]))
    word = words[at]
    if len(word) > 4:
        place = chosen.randrange(2, len(word) - 1)
        words[at] = word[:place] + word[place + 1] + word[place] + word[place + 2 :]
    return " ".join(words)


def shortened(name: str, chosen: random.Random) -> str:
    """A name without one of its words."""
    words = name.split()
    if len(words) > 1:
        del words[chosen.randrange(len(words))]
    return " ".join(words)


MENTIONS: dict[str, Callable[[str, random.Random], str]] = {
    "whole names in lower case": lambda name, _: name.lower(),
    "names without one word": shortened,
    "misspelt names": misspelt,
}


def recall(index: Index, mention: Callable[[str, random.Random], str], chosen: random.Random) -> float:
    """Of things drawn by chance, the share that is among the five best for a mention of its name, or so called."""
    called = Called(index)
    with index.read() as db:
        rows = db.execute("SELECT iri, label FROM profile_entity ORDER BY iri").fetchall()
    drawn = chosen.sample(rows, min(DRAWN, len(rows)))
    found = 0
    for iri, label in drawn:
        said = mention(label, chosen)
        found += iri in {one.iri for one in called.entities(said, 5)} or label in called.near(said, 5)
    return found / len(drawn)


def figures(out: Path, *, rounds: int, minutes: float) -> list[Figure]:
    """Milliseconds from a question to its answer, citations included, and tokens of a slice."""
    middle, slow, reading, sizes, answered = [], [], [], [], 0
    recalled: dict[str, float] = {}
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        here = Path(scratch)
        data, state = here / "shop.nt", here / ".graphtide"
        count = write(Shop(PRODUCTS).triples(), data)
        run([sys.executable, "-c", BUILD, str(state), str(data)])
        start = time.perf_counter()
        bring(state, BASE, Profile())
        making = time.perf_counter() - start
        index = Index(state, "profile")
        pool = Pool(state, BASE, workers=2, spares=1, warm_bytes=2**30, memory_bytes=2**30)
        with pool:
            graph = PoolGraph(pool)
            for number in range(rounds):
                worlds = Worlds(Names(BASE), {}, index)
                asker = Asker(graph, worlds)
                start = time.perf_counter()
                world = asker.world()
                reading.append(time.perf_counter() - start)
                took = []
                for question in questions(graph, random.Random(number)):
                    start = time.perf_counter()
                    found = asker.ask(question, today=TODAY)
                    took.append((time.perf_counter() - start) * 1e3)
                    answered += isinstance(found, Answer)
                    sizes.append(slice_of(world.schema, question).tokens)
                middle.append(percentile(took, 0.5))
                slow.append(percentile(took, 0.95))
        for kind, mention in MENTIONS.items():
            recalled[kind] = recall(index, mention, random.Random(7))
    note = f"{count:,} triples, {answered} of {rounds * ASKED} answered, citations included"
    return [
        Figure("a question without a model, p50", "ms", tuple(middle), note=note),
        Figure("a question without a model, p95", "ms", tuple(slow), aim=300.0),
        Figure("the profile, made whole", "s", (making,)),
        Figure("the profile, read", "s", tuple(reading)),
        *(Figure(f"entity recall@5, {kind}", "%", (100 * share,)) for kind, share in recalled.items()),
        Figure("what a model is told of the profile, p95", "tokens", (percentile(sizes, 0.95),), aim=1500.0),
    ]
