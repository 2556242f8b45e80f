"""A shop of made-up products, offers and reviews, and the twelve questions that BSBM made known of its visitors."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

S = "https://bench.example/shop/"
V = "https://bench.example/shop#"
_A = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
_LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
_XSD = "http://www.w3.org/2001/XMLSchema#"
_WORDS = tuple(
    """
    amber anvil arch ash aster basalt beacon birch bolt brass briar brook cedar chalk
    cinder clay cliff clover cobalt copper coral crest delta drift dune elm ember fern
    flint fjord frost gale garnet glade grove harbor hazel heron indigo iris iron ivory
    jade juniper kelp kiln lark laurel lichen linen lotus maple marble marsh mica mint
    moss nickel oak ochre onyx opal orchid osprey pebble pine plume poppy quartz quill
    raven reed ridge rowan rust sage shale silt slate sorrel spruce steel stone tarn
    teal thistle thorn tide topaz umber vale velvet walnut willow zinc
    """.split()  # noqa: SIM905 - a list of strings would take a hundred lines
)
PREFIXES = (
    f"PREFIX s: <{S}> PREFIX v: <{V}> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
    "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
)
# The order of one visit: as often as the published mix asks each of the twelve.
MIX = (1, 2, 2, 3, 2, 2, 4, 2, 2, 5, 7, 7, 6, 7, 7, 8, 9, 9, 8, 9, 9, 10, 10, 11, 12)
PER_PRODUCT = 286  # triples, about


@dataclass(frozen=True, slots=True)
class Shop:
    """So many products, and all that hangs on them; the same for the same `seed`."""

    products: int
    seed: int = 1

    @property
    def features(self) -> int:
        return max(60, self.products // 12)

    @property
    def types(self) -> int:
        return max(8, self.products // 60)

    def triples(self) -> Iterator[str]:
        """The shop as N-Triples lines, ground."""
        chosen = random.Random(self.seed)

        def words(least: int, most: int) -> str:
            return " ".join(chosen.choices(_WORDS, k=chosen.randint(least, most)))

        def say(subject: str, *pairs: tuple[str, str]) -> Iterator[str]:
            for predicate, value in pairs:
                yield f"<{S}{subject}> {predicate} {value} .\n"

        def v(name: str) -> str:
            return f"<{V}{name}>"

        def number(value: float) -> str:
            return f'"{value}"^^<{_XSD}{"integer" if isinstance(value, int) else "decimal"}>'

        def day(least: int, most: int) -> str:
            serial = chosen.randint(least, most)
            return f'"20{8 + serial // 336:02}-{serial // 28 % 12 + 1:02}-{serial % 28 + 1:02}"^^<{_XSD}date>'

        for n in range(self.types):
            yield from say(f"type{n}", (_A, v("ProductType")), (_LABEL, f'"{words(1, 3)}"'))
            if n:
                yield from say(
                    f"type{n}", ("<http://www.w3.org/2000/01/rdf-schema#subClassOf>", f"<{S}type{(n - 1) // 4}>")
                )
        for n in range(self.features):
            yield from say(f"feature{n}", (_A, v("Feature")), (_LABEL, f'"{words(1, 3)}"'))
        makers, vendors, people = self.products // 40 + 1, self.products // 30 + 1, self.products // 2 + 1
        for kind, count in (("maker", makers), ("vendor", vendors), ("person", people)):
            for n in range(count):
                yield from say(
                    f"{kind}{n}", (_A, v(kind.capitalize())), (_LABEL, f'"{words(1, 3)}"'),
                    (v("country"), f"<{S}country{chosen.choices(range(10), range(10, 0, -1))[0]}>"),
                    (v("homepage"), f"<https://bench.example/{kind}/{n}>"),
                )  # fmt: skip
        for n in range(self.products):
            me, leaf = f"product{n}", chosen.randrange(self.types)
            yield from say(
                me, (_A, v("Product")), (_LABEL, f'"{words(1, 3)}"'), (v("comment"), f'"{words(30, 80)}"'),
                (v("maker"), f"<{S}maker{chosen.randrange(makers)}>"), (v("published"), day(0, 300)),
            )  # fmt: skip
            while True:
                yield from say(me, (_A, f"<{S}type{leaf}>"))
                if not leaf:
                    break
                leaf = (leaf - 1) // 4
            for feature in chosen.sample(range(self.features), chosen.randint(9, 25)):
                yield from say(me, (v("feature"), f"<{S}feature{feature}>"))
            for k in range(1, 7):
                if k < 4 or chosen.random() < 0.6:
                    yield from say(me, (v(f"number{k}"), number(chosen.randint(1, 2000))))
                    yield from say(me, (v(f"text{k}"), f'"{words(3, 15)}"'))
            for k in range(20):
                begin = chosen.randint(0, 600)
                yield from say(
                    f"offer{n}-{k}", (_A, v("Offer")), (v("product"), f"<{S}{me}>"),
                    (v("vendor"), f"<{S}vendor{chosen.randrange(vendors)}>"),
                    (v("price"), number(round(chosen.uniform(5, 9000), 2))),
                    (v("validFrom"), day(begin, begin)), (v("validTo"), day(begin + 10, begin + 90)),
                    (v("deliveryDays"), number(chosen.randint(1, 14))),
                    (v("webpage"), f"<https://bench.example/offer/{n}/{k}>"),
                )  # fmt: skip
            for k in range(10):
                language = chosen.choice(("en", "en", "de", "fr", "es", "ja"))
                yield from say(
                    f"review{n}-{k}", (_A, v("Review")), (v("reviewFor"), f"<{S}{me}>"),
                    (v("reviewer"), f"<{S}person{chosen.randrange(people)}>"), (v("reviewDate"), day(200, 900)),
                    (v("title"), f'"{words(2, 8)}"'), (v("text"), f'"{words(20, 60)}"@{language}'),
                )  # fmt: skip
                for rating in range(1, 5):
                    if chosen.random() < 0.7:
                        yield from say(f"review{n}-{k}", (v(f"rating{rating}"), number(chosen.randint(1, 10))))

    def query(self, shape: int, chosen: random.Random) -> str:
        """One of the twelve (1 to 12) with parameters drawn from the shop."""
        product = f"s:product{chosen.randrange(self.products)}"
        offer = f"s:offer{chosen.randrange(self.products)}-{chosen.randrange(20)}"
        review = f"s:review{chosen.randrange(self.products)}-{chosen.randrange(10)}"
        kind = f"s:type{chosen.randrange(self.types // 8, self.types // 2)}"
        one, two, three = (f"s:feature{n}" for n in chosen.sample(range(self.features), 3))
        x, y = chosen.randint(1, 500), chosen.randint(1, 500)
        today = f'"2009-{chosen.randint(1, 12):02}-15"^^xsd:date'
        return (
            PREFIXES
            + (
                f"""SELECT DISTINCT ?product ?label WHERE {{
                ?product rdfs:label ?label ; a {kind} ; v:feature {one}, {two} ; v:number1 ?value1
                FILTER (?value1 > {x}) }} ORDER BY ?label LIMIT 10""",
                f"""SELECT ?label ?comment ?maker ?f ?text1 ?text2 ?text3 ?number1 ?number2 ?text4 ?text5 ?number4
                WHERE {{ {product} rdfs:label ?label ; v:comment ?comment ; v:maker ?m . ?m rdfs:label ?maker .
                {product} v:feature ?feature . ?feature rdfs:label ?f . {product} v:text1 ?text1 ; v:text2 ?text2 ;
                v:text3 ?text3 ; v:number1 ?number1 ; v:number2 ?number2 .
                OPTIONAL {{ {product} v:text4 ?text4 }} OPTIONAL {{ {product} v:text5 ?text5 }}
                OPTIONAL {{ {product} v:number4 ?number4 }} }}""",
                f"""SELECT ?product ?label WHERE {{
                ?product rdfs:label ?label ; a {kind} ; v:feature {one} ; v:number1 ?p1 ; v:number3 ?p3 .
                FILTER (?p1 > {x}) FILTER (?p3 < {y + 1500})
                OPTIONAL {{ ?product v:feature {two} . ?product rdfs:label ?other }} FILTER (!bound(?other))
                }} ORDER BY ?label LIMIT 10""",
                f"""SELECT DISTINCT ?product ?label ?text WHERE {{
                {{ ?product rdfs:label ?label ; a {kind} ; v:feature {one}, {two} ; v:text1 ?text ; v:number1 ?p1
                   FILTER (?p1 > {x}) }} UNION
                {{ ?product rdfs:label ?label ; a {kind} ; v:feature {one}, {three} ; v:text1 ?text ; v:number2 ?p2
                   FILTER (?p2 > {y}) }} }} ORDER BY ?label OFFSET 5 LIMIT 10""",
                f"""SELECT DISTINCT ?product ?label WHERE {{
                ?product rdfs:label ?label . FILTER ({product} != ?product)
                {product} v:feature ?shared . ?product v:feature ?shared .
                {product} v:number1 ?o1 . ?product v:number1 ?s1 . FILTER (?s1 < (?o1 + 120) && ?s1 > (?o1 - 120))
                {product} v:number2 ?o2 . ?product v:number2 ?s2 . FILTER (?s2 < (?o2 + 170) && ?s2 > (?o2 - 170))
                }} ORDER BY ?label LIMIT 5""",
                f"""SELECT ?product ?label WHERE {{ ?product rdfs:label ?label ; a v:Product .
                FILTER regex(?label, "{chosen.choice(_WORDS)}") }}""",
                f"""SELECT ?label ?offer ?price ?vendor ?vendorTitle ?review ?title ?reviewer ?name ?rating1 ?rating2
                WHERE {{ {product} rdfs:label ?label .
                OPTIONAL {{ ?offer v:product {product} ; v:price ?price ; v:vendor ?vendor ; v:validTo ?date .
                    ?vendor rdfs:label ?vendorTitle ; v:country s:country0 . FILTER (?date > {today}) }}
                OPTIONAL {{ ?review v:reviewFor {product} ; v:reviewer ?reviewer ; v:title ?title .
                    ?reviewer rdfs:label ?name . OPTIONAL {{ ?review v:rating1 ?rating1 }}
                    OPTIONAL {{ ?review v:rating2 ?rating2 }} }} }}""",
                f"""SELECT ?title ?text ?date ?reviewer ?name ?rating1 ?rating2 ?rating3 ?rating4 WHERE {{
                ?review v:reviewFor {product} ; v:title ?title ; v:text ?text ; v:reviewDate ?date .
                ?review v:reviewer ?reviewer .
                FILTER langMatches(lang(?text), "EN") ?reviewer rdfs:label ?name .
                OPTIONAL {{ ?review v:rating1 ?rating1 }} OPTIONAL {{ ?review v:rating2 ?rating2 }}
                OPTIONAL {{ ?review v:rating3 ?rating3 }} OPTIONAL {{ ?review v:rating4 ?rating4 }}
                }} ORDER BY DESC(?date) LIMIT 20""",
                f"""DESCRIBE ?x WHERE {{ {review} v:reviewer ?x }}""",
                f"""SELECT DISTINCT ?offer ?price WHERE {{
                ?offer v:product {product} ; v:vendor ?vendor ; v:deliveryDays ?days ; v:price ?price .
                ?offer v:validTo ?date .
                ?vendor v:country s:country0 . FILTER (?days <= 7) FILTER (?date > {today})
                }} ORDER BY ?price LIMIT 10""",
                f"""SELECT ?property ?value ?of WHERE {{
                {{ {offer} ?property ?value }} UNION {{ ?of ?property {offer} }} }}""",
                f"""CONSTRUCT {{ {offer} v:productLabel ?productLabel ; v:vendorName ?vendorName ; v:vendorHome ?home ;
                v:page ?url ; v:cost ?price ; v:days ?days ; v:until ?date }} WHERE {{
                {offer} v:product ?product ; v:vendor ?vendor ; v:webpage ?url ; v:price ?price ; v:deliveryDays ?days ;
                v:validTo ?date . ?product rdfs:label ?productLabel . ?vendor rdfs:label ?vendorName .
                ?vendor v:homepage ?home }}""",
            )[shape - 1]
        )

    def mix(self, chosen: random.Random) -> list[str]:
        """The queries of one visit."""
        return [self.query(shape, chosen) for shape in MIX]
