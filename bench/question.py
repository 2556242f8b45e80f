"""A question without a model over a million triples: how long it takes, and what a model would be told."""

from __future__ import annotations

import random
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

from bench.explore import BUILD, PRODUCTS, write
from bench.figure import Figure, percentile
from bench.process import run
from bench.shop import PREFIXES, Shop
from sparql.names import Names
from sparql.query import Pool
from sparql.question.answer import Answer
from sparql.question.asking import Asker, Worlds
from sparql.question.graph import PoolGraph
from sparql.question.slicing import slice_of

BASE = "https://bench.example/"
TODAY = date(2026, 12, 1)
ASKED = 60


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


def figures(out: Path, *, rounds: int, minutes: float) -> list[Figure]:
    """Milliseconds from a question to its answer, citations included, and tokens of a slice."""
    middle, slow, reading, sizes, answered = [], [], [], [], 0
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        here = Path(scratch)
        data, state = here / "shop.nt", here / ".graphtide"
        count = write(Shop(PRODUCTS).triples(), data)
        run([sys.executable, "-c", BUILD, str(state), str(data)])
        pool = Pool(state, BASE, workers=2, spares=1, warm_bytes=2**30, memory_bytes=2**30)
        with pool:
            graph = PoolGraph(pool)
            for number in range(rounds):
                worlds = Worlds(Names(BASE), {})
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
    note = f"{count:,} triples, {answered} of {rounds * ASKED} answered, citations included"
    return [
        Figure("a question without a model, p50", "ms", tuple(middle), note=note),
        Figure("a question without a model, p95", "ms", tuple(slow), aim=300.0),
        Figure("the profile, made whole", "s", tuple(reading)),
        Figure("what a model is told of the profile, p95", "tokens", (percentile(sizes, 0.95),), aim=1500.0),
    ]
