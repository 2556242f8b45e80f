"""What reading a query text costs, against rdflib's parser on the same text in the same run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from bench.figure import Figure, ratios

PREFIXES = """\
PREFIX inst: <http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/instances/dataFromProducer1/>
PREFIX bsbm: <http://www4.wiwiss.fu-berlin.de/bizer/bsbm/v01/vocabulary/>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#>
PREFIX foaf: <http://xmlns.com/foaf/0.1/>
PREFIX dc: <http://purl.org/dc/elements/1.1/>
PREFIX rev: <http://purl.org/stuff/rev#>
"""
# Shapes of the Berlin benchmark's explore mix: a search, a product's page, a comparison, reviews with optional parts.
EXPLORE = {
    "search": """
SELECT DISTINCT ?product ?label WHERE {
  ?product rdfs:label ?label ; a inst:ProductType7 ; bsbm:productFeature inst:Feature3 , inst:Feature9 ;
    bsbm:productPropertyNumeric1 ?value1 .
  FILTER (?value1 > 136)
} ORDER BY ?label LIMIT 10""",
    "page": """
SELECT ?label ?comment ?producer ?feature ?text1 ?text2 ?text3 ?number1 ?number2 ?text4 ?text5 ?number4 WHERE {
  inst:Product12 rdfs:label ?label .
  inst:Product12 rdfs:comment ?comment .
  inst:Product12 bsbm:producer ?p .
  ?p rdfs:label ?producer .
  inst:Product12 dc:publisher ?p .
  inst:Product12 bsbm:productFeature ?f .
  ?f rdfs:label ?feature .
  inst:Product12 bsbm:productPropertyTextual1 ?text1 .
  inst:Product12 bsbm:productPropertyTextual2 ?text2 .
  inst:Product12 bsbm:productPropertyTextual3 ?text3 .
  inst:Product12 bsbm:productPropertyNumeric1 ?number1 .
  inst:Product12 bsbm:productPropertyNumeric2 ?number2 .
  OPTIONAL { inst:Product12 bsbm:productPropertyTextual4 ?text4 }
  OPTIONAL { inst:Product12 bsbm:productPropertyTextual5 ?text5 }
  OPTIONAL { inst:Product12 bsbm:productPropertyNumeric4 ?number4 }
}""",
    "alike": """
SELECT DISTINCT ?product ?label WHERE {
  ?product rdfs:label ?label .
  FILTER (inst:Product12 != ?product)
  inst:Product12 bsbm:productFeature ?feature .
  ?product bsbm:productFeature ?feature .
  inst:Product12 bsbm:productPropertyNumeric1 ?ours1 .
  ?product bsbm:productPropertyNumeric1 ?theirs1 .
  FILTER (?theirs1 < (?ours1 + 120) && ?theirs1 > (?ours1 - 120))
  inst:Product12 bsbm:productPropertyNumeric2 ?ours2 .
  ?product bsbm:productPropertyNumeric2 ?theirs2 .
  FILTER (?theirs2 < (?ours2 + 170) && ?theirs2 > (?ours2 - 170))
} ORDER BY ?label LIMIT 5""",
    "reviews": """
SELECT ?title ?text ?date ?reviewer ?name ?rating1 ?rating2 WHERE {
  ?review bsbm:reviewFor inst:Product12 ; dc:title ?title ; rev:text ?text ; bsbm:reviewDate ?date ;
    rev:reviewer ?reviewer .
  ?reviewer foaf:name ?name .
  FILTER langMatches(lang(?text), "EN")
  OPTIONAL { ?review bsbm:rating1 ?rating1 . }
  OPTIONAL { ?review bsbm:rating2 ?rating2 . }
} ORDER BY DESC(?date) LIMIT 20""",
}
TIMES = 40


def milliseconds(work: Callable[[str], object], query: str) -> float:
    """The median of `TIMES` readings."""
    took = []
    for _ in range(TIMES):
        began = time.perf_counter()
        work(query)
        took.append((time.perf_counter() - began) * 1e3)
    return statistics.median(took)


def figures(out: Path, *, rounds: int, minutes: float) -> list[Figure]:
    """One explore query parsed, its footprint, and a megabyte of text nobody meant well with."""
    from rdflib.plugins.sparql.parser import parseQuery

    from sparql.syntax import parse, reads, text

    number = 0

    def fresh(query: str) -> object:
        # A space more each time: a text seen before is only looked up.
        nonlocal number
        number += 1
        return parse(query + " " * (number % 2000))

    queries = {name: PREFIXES + query for name, query in EXPLORE.items()}
    found = []
    for name, query in queries.items():
        ours = [milliseconds(fresh, query) for _ in range(rounds)]
        theirs = [milliseconds(parseQuery, query) for _ in range(rounds)]
        found.append(Figure(f"parse '{name}' of the explore mix", "ms", tuple(ours), aim=2.0))
        found.append(ratios(f"parse '{name}' / rdflib", ours, theirs))
    page = queries["page"]
    tree = parse(page)
    found.append(
        Figure("footprint of 'page'", "ms", tuple(milliseconds(lambda _: reads(tree), page) for _ in range(rounds)))
    )
    found.append(Figure("'page' known", "ms", tuple(milliseconds(parse, page) for _ in range(rounds))))
    found.append(Figure("print 'page'", "ms", tuple(milliseconds(lambda _: text(tree), page) for _ in range(rounds))))
    megabyte = "ASK { " + "?s ?p ?o . " * (2**20 // 11) + "}"
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        fresh(megabyte)
        took.append(time.perf_counter() - began)
    found.append(Figure("a megabyte of triples", "s", tuple(took)))
    return found
