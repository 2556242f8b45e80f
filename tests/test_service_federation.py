"""SERVICE answers as the standard says, over real HTTP, within its limits, and never half."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pyoxigraph as ox
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparql.outgoing import Got, Outgoing
from sparql.query.federation import FederationFailed, FederationRefused, Limits, federated
from sparql.syntax import parse, text
from sparql.syntax.tree import Query

E = "http://e.example/"
SKOLEM = "https://base.example/.well-known/genid/"
P = f"PREFIX : <{E}> "


@dataclass
class Endpoints:
    """SPARQL endpoints on one loopback port; `faults` answer instead."""

    url: str
    stores: dict[str, ox.Store] = field(default_factory=dict)
    faults: dict[str, Callable[[BaseHTTPRequestHandler], None]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)

    def add(self, name: str, turtle: str) -> str:
        self.stores[name] = ox.Store()
        self.stores[name].load(f"@prefix : <{E}> . {turtle}".encode(), format=ox.RdfFormat.TURTLE)
        return self.url + name


@pytest.fixture
def endpoints() -> Iterator[Endpoints]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            name, query = self.path[1:], parse_qs(body)["query"][0]
            found.asked.append((name, query))
            if name in found.faults:
                found.faults[name](self)
                return
            answer = found.stores[name].query(query).serialize(format=ox.QueryResultsFormat.JSON)  # type: ignore[union-attr]
            reply(self, answer or b"")

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found = Endpoints(f"http://127.0.0.1:{server.server_port}/")
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield found
    server.shutdown()
    server.server_close()


def reply(handler: BaseHTTPRequestHandler, body: bytes, kind: str = "application/sparql-results+json") -> None:
    handler.send_response(200)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def local(store: ox.Store) -> Callable[[str], list[dict[str, Any]]]:
    def answer(query: str) -> list[dict[str, Any]]:
        found = store.query(query)
        assert isinstance(found, ox.QuerySolutions)
        names = [variable.value for variable in found.variables]
        return [{name: row[name] for name in names if row[name] is not None} for row in found]

    return answer


def rewritten(query: str, endpoints: Endpoints, store: ox.Store | None = None, **limits: Any) -> str:
    tree = parse(query, only="query")
    assert isinstance(tree, Query)
    out = Outgoing([endpoints.url, "http://127.0.0.1:9"], allow_private=["127.0.0.1"])
    ends = time.monotonic() + 10
    done = federated(tree, out, local(store or ox.Store()), skolem=SKOLEM, limits=Limits(**limits), ends=ends)
    return text(done.query)


def answers(query: str, endpoints: Endpoints, turtle: str = "", **limits: Any) -> list[tuple[str, ...]]:
    store = ox.Store()
    store.load(f"@prefix : <{E}> . {turtle}".encode(), format=ox.RdfFormat.TURTLE)
    found = store.query(rewritten(P + query, endpoints, store, **limits))
    assert isinstance(found, ox.QuerySolutions)
    return sorted(tuple("-" if term is None else getattr(term, "value", str(term)) for term in row) for row in found)


@pytest.mark.parametrize("name", ["01", "02", "03", "04", "05", "06", "07"])
def test_the_w3c_tests_of_service_pass_over_http(name: str, shared: Path, endpoints: Endpoints) -> None:
    folder = shared / "w3c-sparql11" / "service"
    TEST = "PREFIX mf: <http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#> "
    TEST += "PREFIX qt: <http://www.w3.org/2001/sw/DataAccess/tests/test-query#> "
    manifest = ox.Store()
    manifest.load(path=str(folder / "manifest.ttl"), base_iri=folder.as_uri() + "/", format=ox.RdfFormat.TURTLE)
    query = "SELECT ?q ?d ?r ?e ?ed { ?t mf:action ?a ; mf:result ?r . ?a qt:query ?q OPTIONAL { ?a qt:data ?d } "
    query += "OPTIONAL { ?a qt:serviceData [ qt:endpoint ?e ; qt:data ?ed ] } FILTER(CONTAINS(STR(?q), 'service" + name
    rows = list(manifest.query(TEST + query + "')) }"))  # type: ignore[arg-type]
    assert rows

    def here(iri: Any) -> str:
        """A file of the suite, its endpoints being ours."""
        found = Path(iri.value.removeprefix("file://")).read_text("utf-8")
        for row in rows:
            if row["e"] is not None:
                found = found.replace(row["e"].value, endpoints.url + row["e"].value.split("/")[2])
        return found.replace("http://invalid.endpoint.org/sparql", "http://127.0.0.1:9/")

    for row in rows:
        if row["e"] is not None:
            endpoints.add(row["e"].value.split("/")[2], "")
            endpoints.stores[row["e"].value.split("/")[2]].load(
                here(row["ed"]).encode(), format=ox.RdfFormat.TURTLE, base_iri=folder.as_uri() + "/"
            )
    store = ox.Store()
    if rows[0]["d"] is not None:
        store.load(here(rows[0]["d"]).encode(), format=ox.RdfFormat.TURTLE)
    asked = here(rows[0]["q"])
    found = store.query(rewritten(asked, endpoints, store))
    wanted = ox.parse_query_results(here(rows[0]["r"]).encode(), format=ox.QueryResultsFormat.XML)
    assert isinstance(found, ox.QuerySolutions) and isinstance(wanted, ox.QuerySolutions)
    names = [variable.value for variable in wanted.variables]
    assert Counter(tuple(str(row[name]) for name in names) for row in found) == Counter(
        tuple(str(row[name]) for name in names) for row in wanted
    )


def test_values_that_are_known_go_along(endpoints: Endpoints) -> None:
    url = endpoints.add("names", ':a :name "A" . :b :name "B" . :c :name "C" .')
    query = f"SELECT ?n {{ ?s :likes ?o . SERVICE <{url}> {{ ?o :name ?n }} }}"
    assert answers(query, endpoints, ":x :likes :a, :c .") == [("A",), ("C",)]
    [(_, sent)] = endpoints.asked
    assert f"<{E}a>" in sent and f"<{E}b>" not in sent and "VALUES" in sent


def test_values_that_follow_in_the_same_group_go_along(endpoints: Endpoints) -> None:
    url = endpoints.add("names", ':a :name "A" . :b :name "B" .')
    query = f"SELECT ?n {{ SERVICE <{url}> {{ ?o :name ?n }} VALUES ?o {{ :b }} }}"
    assert answers(query, endpoints) == [("B",)]
    assert f"<{E}b>" in endpoints.asked[0][1]


def test_too_many_values_stay_and_the_answer_is_the_same(endpoints: Endpoints) -> None:
    url = endpoints.add("names", " ".join(f':n{n} :name "{n}" .' for n in range(300)))
    query = f"SELECT ?n {{ ?s :likes ?o . SERVICE <{url}> {{ ?o :name ?n }} }}"
    assert len(answers(query, endpoints, " ".join(f":x :likes :n{n} ." for n in range(250)))) == 250
    assert "VALUES" not in endpoints.asked[0][1]


def test_nothing_is_asked_when_nothing_is_joined_to(endpoints: Endpoints) -> None:
    url = endpoints.add("names", ':a :name "A" .')
    assert answers(f"SELECT ?n {{ ?s :likes ?o . SERVICE <{url}> {{ ?o :name ?n }} }}", endpoints) == []
    assert endpoints.asked == []


def test_terms_keep_their_types(endpoints: Endpoints) -> None:
    url = endpoints.add(
        "t", ':a :v 1, "1", "x\\"y\\\\z\\n"@en-GB, true, "2020-01-01"^^:date, <http://e.example/i?a=b#c> .'
    )
    query = f"SELECT ?v {{ SERVICE <{url}> {{ :a :v ?v }} }}"
    store = ox.Store()
    found = store.query(rewritten(P + query, endpoints, store))
    theirs = endpoints.stores["t"].query(P + "SELECT ?v { :a :v ?v }")
    assert {str(row["v"]) for row in found} == {str(row["v"]) for row in theirs}  # type: ignore[union-attr]


def test_a_blank_node_of_an_endpoint_is_one_node_within_a_call_and_another_in_the_next(endpoints: Endpoints) -> None:
    url = endpoints.add("b", "[] :p 1 ; :q 2 .")
    inner = f"SERVICE <{url}> {{ ?B :p 1 ; :q ?w }}"
    query = f"SELECT ?b ?c {{ {inner.replace('?B', '?b')} {inner.replace('?B', '?c')} }}"
    [(first, second)] = answers(query, endpoints)
    assert first.startswith(SKOLEM) and second.startswith(SKOLEM) and first != second


def test_an_endpoint_that_a_variable_names_is_asked_when_the_graph_says_it(endpoints: Endpoints) -> None:
    one, two = endpoints.add("one", ":a :n 1 ."), endpoints.add("two", ":a :n 2 .")
    query = "SELECT ?s ?n { :list :has ?s . SERVICE ?s { :a :n ?n } }"
    assert answers(query, endpoints, f":list :has <{one}>, <{two}> .") == [(one, "1"), (two, "2")]


def test_an_endpoint_that_nothing_names_is_refused(endpoints: Endpoints) -> None:
    with pytest.raises(FederationRefused, match="Bind it first"):
        answers("SELECT * { SERVICE ?s { ?a ?b ?c } }", endpoints)


@pytest.mark.parametrize("silent", ["", "SILENT "])
@pytest.mark.parametrize(
    "url", ["http://other.example/sparql", "http://169.254.169.254/", "file:///etc/passwd", "urn:x"]
)
def test_an_endpoint_that_is_not_listed_is_refused_silent_or_not(url: str, silent: str, endpoints: Endpoints) -> None:
    with pytest.raises(FederationRefused, match="service_allow"):
        answers(f"SELECT * {{ SERVICE {silent}<{url}> {{ ?a ?b ?c }} }}", endpoints)
    with pytest.raises(FederationRefused, match="service_allow"):
        answers(f"SELECT * {{ VALUES ?s {{ <{url}> }} SERVICE {silent}?s {{ ?a ?b ?c }} }}", endpoints)
    assert endpoints.asked == []


FAULTS: dict[str, Callable[[BaseHTTPRequestHandler], None]] = {
    "error": lambda handler: handler.send_error(500),
    "html": lambda handler: reply(handler, b"<html>", "text/html"),
    "cut": lambda handler: reply(handler, b'{"head":{"vars":["a"]},"results":{"bindings":[{"a":{"type":"uri"'),
    "boolean": lambda handler: reply(handler, b'{"head":{},"boolean":true}'),
    "not json": lambda handler: reply(handler, b"\xff\xfe"),
    "bad iri": lambda handler: reply(
        handler, b'{"head":{"vars":["a"]},"results":{"bindings":[{"a":{"type":"uri","value":"http://x> } ; {<y"}}]}}'
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_an_endpoint_that_fails_fails_the_query_or_is_one_empty_solution_when_silent(
    fault: str, endpoints: Endpoints
) -> None:
    endpoints.faults["f"] = FAULTS[fault]
    query = "SELECT ?s ?a { ?s :p 1 SERVICE %s <" + endpoints.url + "f> { ?a :p ?c } }"
    with pytest.raises(FederationFailed, match="SILENT"):
        answers(query % "", endpoints, ":x :p 1 .")
    assert answers(query % "SILENT", endpoints, ":x :p 1 .") == [(E + "x", "-")]


def test_a_limit_is_not_silenced(endpoints: Endpoints) -> None:
    url = endpoints.add("many", " ".join(f":a :p {n} ." for n in range(50)))
    query = f"SELECT * {{ SERVICE SILENT <{url}> {{ :a :p ?n }} }}"
    assert len(answers(query, endpoints, rows=50)) == 50
    with pytest.raises(FederationFailed, match="more than 49 solutions"):
        answers(query, endpoints, rows=49)
    with pytest.raises(FederationFailed, match="more than 100 bytes"):
        answers(query, endpoints, bytes=100)
    with pytest.raises(FederationFailed, match="more than 2 calls"):
        answers("SELECT * {" + f"{{ SERVICE SILENT <{url}> {{ :a :p 1 }} }}" * 3 + "}", endpoints, calls=2)


def test_all_calls_share_one_deadline(endpoints: Endpoints) -> None:
    endpoints.faults["slow"] = lambda handler: time.sleep(0.25)
    call = f"OPTIONAL {{ SERVICE SILENT <{endpoints.url}slow> {{ :a :p 1 }} }}"
    began = time.monotonic()
    answers(f"SELECT * {{ {call * 10} }}", endpoints, seconds=0.6)
    assert time.monotonic() - began < 2.0  # ten calls take more


def test_what_is_sent_holds_nothing_but_the_pattern_and_its_values(endpoints: Endpoints) -> None:
    url = endpoints.add("x", ":a :n 1 .")
    answers(
        f'SELECT * {{ :me :secret ?w . :me :knows ?a . SERVICE <{url}> {{ ?a :n ?n }} FILTER(?w = "hidden") }}',
        endpoints,
        ':me :secret "hidden" ; :knows :a .',
    )
    [(_, sent)] = endpoints.asked
    assert "secret" not in sent and "hidden" not in sent


# Joins as the engine makes them, on the data of both stores, against ours.
_TERMS = st.sampled_from([":a", "?x", "?y", "?z"])
_TRIPLE = st.tuples(_TERMS, st.sampled_from([":p", ":q"]), _TERMS).map(" ".join)
_TRIPLES = st.lists(_TRIPLE, min_size=1, max_size=2).map(" . ".join)
_DATA = st.lists(
    st.tuples(st.sampled_from([":a", ":b"]), st.sampled_from([":p", ":q"]), st.sampled_from([":a", ":b"])),
    max_size=6,
).map(lambda rows: " ".join(f"{' '.join(row)} ." for row in rows))
_INNER = st.one_of(
    _TRIPLES,
    st.tuples(_TRIPLE, _TRIPLE).map(lambda two: f"{two[0]} OPTIONAL {{ {two[1]} }}"),
    st.tuples(_TRIPLE, _TRIPLE).map(lambda two: f"{{ {two[0]} }} UNION {{ {two[1]} }}"),
)
_SHAPES = st.sampled_from(
    ["%s . S", "S %s", "%s OPTIONAL { S }", "%s MINUS { S }", "{ %s } UNION { S }", "%s { S FILTER(!BOUND(?x)) }"]
    + [
        "%s FILTER EXISTS { S }",
        "OPTIONAL { %s } S",
        "%s OPTIONAL { S } ?x :p ?y",
        "GRAPH ?g { %s S }",
        "S MINUS { %s }",
    ]
    + ["{ SELECT ?x { %s S } }", "%s BIND(:a AS ?w) { S } UNION { ?w :p ?x }", "%s OPTIONAL { S FILTER(?x != ?y) }"]
)


@given(_DATA, _DATA, _TRIPLES, _INNER, _SHAPES)
def test_a_query_with_service_answers_as_the_engine_would(
    here: str, there: str, outer: str, inner: str, shape: str
) -> None:
    ours, theirs = ox.Store(), ox.Store()
    turtle = f"@prefix : <{E}> . "
    ours.load((turtle + here).encode(), format=ox.RdfFormat.TURTLE)
    ours.load((turtle + here).encode(), format=ox.RdfFormat.TURTLE, to_graph=ox.NamedNode(E + "g"))
    theirs.load((turtle + there).encode(), format=ox.RdfFormat.TURTLE)
    # The reference: the whole of the other endpoint's answer as a table, joined by the engine.
    tree = parse(f"{P} SELECT * {{ {inner} }}", only="query")
    whole = theirs.query(text(tree))
    assert isinstance(whole, ox.QuerySolutions)
    names = [variable.value for variable in whole.variables]
    cells = [" ".join("UNDEF" if row[name] is None else str(row[name]) for name in names) for row in whole]
    table = f"VALUES ({' '.join('?' + name for name in names)}) {{ {' '.join(f'({row})' for row in cells)} }}"
    query = f"{P} SELECT * {{ {shape % outer} }}"
    wanted = ours.query(_with(query, table))
    asked = parse(_with(query, f"SERVICE <{E}sparql> {{ {inner} }}"), only="query")
    assert isinstance(asked, Query)
    done = federated(asked, _direct(theirs), local(ours), skolem=SKOLEM, limits=Limits(), ends=time.monotonic() + 60)
    assert _table(ours.query(text(done.query))) == _table(wanted)


def test_a_value_is_not_put_in_where_an_endpoint_leaves_it_unbound(endpoints: Endpoints) -> None:
    url = endpoints.add("u", ":a :q :c .")
    inner = f"SERVICE <{url}> {{ ?y :q ?z OPTIONAL {{ ?x :r ?y }} }}"
    query = f"SELECT ?x ?y {{ ?x :p :a {{ {inner} FILTER(!BOUND(?x)) }} }}"
    assert answers(query, endpoints, ":b :p :a .") == [(E + "b", E + "a")]
    query = f"SELECT ?x {{ ?x :p :a MINUS {{ {inner} }} }}"
    assert answers(query, endpoints, ":b :p :a .") == [(E + "b",)]


def _with(query: str, service: str) -> str:
    return " ".join(service if word == "S" else word for word in query.split(" "))


def _direct(store: ox.Store) -> Outgoing:
    class Direct(Outgoing):
        """The other endpoint without a network in between."""

        def check(self, url: str) -> Any:
            return None

        def post(self, url: str, data: bytes, *_: Any, **__: Any) -> Got:
            found = store.query(parse_qs(data.decode())["query"][0])
            assert isinstance(found, ox.QuerySolutions)
            return Got("application/sparql-results+json", found.serialize(format=ox.QueryResultsFormat.JSON) or b"")

    return Direct()


def _table(found: Any) -> Counter[frozenset[tuple[str, str]]]:
    names = [variable.value for variable in found.variables]
    return Counter(frozenset((name, str(row[name])) for name in names if row[name] is not None) for row in found)


def test_results_in_json_are_read_whatever_json_is_called(endpoints: Endpoints) -> None:
    body = json.dumps({"head": {"vars": ["a"]}, "results": {"bindings": [{"a": {"type": "literal", "value": "x"}}]}})
    endpoints.faults["j"] = lambda handler: reply(handler, body.encode(), "application/json; charset=utf-8")
    assert answers(f"SELECT ?a {{ SERVICE <{endpoints.url}j> {{ ?s :p ?a }} }}", endpoints) == [("x",)]
