"""What the endpoint says of itself is RDF, conforms to the schema, and is true."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from pyoxigraph import NamedNode, RdfFormat, Store

from sparql.log import Change, read_head
from sparql.query import results
from sparql.server.service_description import FUNCTIONS
from sparql.store import open_store

E = "https://e.example/"
RDF, SH = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/ns/shacl#"
SD, VOID = "http://www.w3.org/ns/sparql-service-description#", "http://rdfs.org/ns/void#"
PROV, GT, XSD = "http://www.w3.org/ns/prov#", "https://w3id.org/graphtide/ns#", "http://www.w3.org/2001/XMLSchema#"
PREFIXES = f"PREFIX sd: <{SD}> PREFIX void: <{VOID}> PREFIX sh: <{SH}> PREFIX prov: <{PROV}> PREFIX gt: <{GT}> " + (
    "PREFIX dcat: <http://www.w3.org/ns/dcat#> PREFIX dcterms: <http://purl.org/dc/terms/> "
    "PREFIX earl: <http://www.w3.org/ns/earl#> "
)
START = """
import sys
from pathlib import Path
import sparql.server.examples as examples
from sparql.server.config import ServerConfig
from sparql.server.serve import serve
examples.LOOK_SECONDS, examples.AGAIN_SECONDS = 0.1, 0.5
config = ServerConfig(Path(sys.argv[1]), "https://e.example/", port=0, workers=1, spares=0, **eval(sys.argv[2]))
serve(config, lambda url: print("READY", url, flush=True))
"""
FORMS = {
    "text/turtle": RdfFormat.TURTLE, "application/n-triples": RdfFormat.N_TRIPLES, "text/n3": RdfFormat.N3,
    "application/rdf+xml": RdfFormat.RDF_XML, "application/trig": RdfFormat.TRIG,
    "application/n-quads": RdfFormat.N_QUADS, "application/ld+json": RdfFormat.JSON_LD,
}  # fmt: skip
ACTIVITY = f"<{E}system/commit/1>"
FIRST = {
    "": frozenset({f"<{E}a> <{RDF}type> <{E}def/C>", f"<{E}b> <{RDF}type> <{E}def/C>", f"<{E}a> <{E}def/p> <{E}b>"}),
    f"{E}system/journal": frozenset({
        f"{ACTIVITY} <{RDF}type> <{PROV}Activity>", f"{ACTIVITY} <{PROV}used> <{E}system/source/people>",
        f'{ACTIVITY} <{PROV}endedAtTime> "2026-01-02T03:04:05Z"^^<{XSD}dateTime>',
    }),
    f"{E}mine": frozenset({f'<{E}a> <{E}def/q> "1"', f'<{E}a> <{E}def/q> "2"'}),
}  # fmt: skip


@dataclass
class Running:
    url: str
    state: Path
    queries: Path

    def get(self, path: str, accept: str = "text/turtle", **headers: str) -> requests.Response:
        return requests.get(self.url + path, headers={"Accept": accept, **headers}, timeout=20)

    def graph(self, path: str) -> Store:
        found = self.get(path)
        assert found.status_code == 200, found.text
        store = Store()
        store.load(found.content, RdfFormat.TURTLE)
        return store

    def commit(self, **change: Any) -> None:
        with open_store(self.state, E) as store:
            store.commit(Change(**change))

    def wait(self, until: Any, seconds: float = 15.0) -> Any:
        end = time.monotonic() + seconds
        while not (found := until()):
            assert time.monotonic() < end
            time.sleep(0.05)
        return found

    def level(self) -> None:
        self.wait(lambda: self.get("/void").headers.get("x-graphtide-epoch") == str(read_head(self.state)))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    state = tmp_path_factory.mktemp("describing") / "state"
    queries = state.parent / "queries"
    queries.mkdir()
    (queries / "01-all.rq").write_text(
        f"# Everything of a kind\n# Also what is new.\nPREFIX d: <{E}def/>\nSELECT ?s {{ ?s a d:C }}\n"
    )
    (queries / "02-broken.rq").write_text("# Not a query\nSELECT ?s WHERE { ?s ?p }\n")
    (queries / "03-ask.rq").write_text("ASK { ?s ?p ?o }")
    with open_store(state, E) as store:
        store.commit(Change(added=FIRST))
    options = {"queries": queries, "service_allow": ("https://query.example/sparql",)}
    code = START.replace("eval(sys.argv[2])", "eval(sys.argv[2], {'PosixPath': Path, 'WindowsPath': Path})")
    command = [sys.executable, "-c", code, str(state), repr(options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = next(line for line in process.stdout if line.startswith("READY")).split()[1]
    running = Running(url.rstrip("/"), state, queries)
    running.level()
    yield running
    process.terminate()
    process.wait(20)


def ask(store: Store, text: str) -> bool:
    return bool(store.query(PREFIXES + text))


def values(store: Store, text: str) -> list[tuple[str, ...]]:
    found = store.query(PREFIXES + text)
    return sorted(tuple(term.value for term in row) for row in found)  # type: ignore


def test_w3c_returns_rdf_in_every_form(server: Running, shared: Path) -> None:
    names = (shared / "w3c-sparql11" / "service-description" / "manifest.ttl").read_text()
    assert "GET on endpoint returns RDF" in names
    for media, form in FORMS.items():
        found = server.get("/sparql", media)
        assert found.status_code == 200 and found.headers["content-type"].startswith(media)
        store = Store()
        store.load(found.content, form)
        assert len(store) > 20
    assert requests.head(f"{server.url}/sparql", headers={"Accept": "text/turtle"}, timeout=20).status_code == 200


def test_w3c_the_description_has_a_matching_endpoint_triple(server: Running) -> None:
    endpoint = NamedNode(f"{server.url}/sparql")
    found = list(server.graph("/sparql").quads_for_pattern(None, NamedNode(SD + "endpoint"), endpoint))
    assert len(found) == 1


def test_w3c_the_description_conforms_to_the_schema(server: Running) -> None:
    store = server.graph("/sparql")
    rules = {
        "endpoint": "sd:Service", "supportedLanguage": "sd:Service", "feature": "sd:Service",
        "resultFormat": "sd:Service",
        "inputFormat": "sd:Service", "defaultDataset": "sd:Service", "extensionFunction": "sd:Service",
        "defaultGraph": "sd:Dataset", "namedGraph": "sd:Dataset", "name": "sd:NamedGraph", "graph": "sd:NamedGraph",
    }  # fmt: skip
    for name, domain in rules.items():
        assert ask(store, f"ASK {{ ?s sd:{name} ?o }}"), name
        assert not ask(store, f"ASK {{ ?s sd:{name} ?o FILTER NOT EXISTS {{ ?s a {domain} }} }}"), name
    for name, kind in {"defaultDataset": "sd:Dataset", "defaultGraph": "sd:Graph", "graph": "sd:Graph",
                       "namedGraph": "sd:NamedGraph", "extensionFunction": "sd:Function"}.items():  # fmt: skip
        assert not ask(store, f"ASK {{ ?s sd:{name} ?o FILTER NOT EXISTS {{ ?o a {kind} }} }}"), name
    assert not ask(store, "ASK { ?g a sd:NamedGraph FILTER NOT EXISTS { ?g sd:name ?n } }")
    known = {
        SD + name
        for name in ("DereferencesURIs", "UnionDefaultGraph", "RequiresDataset", "EmptyGraphs", "BasicFederatedQuery")
    }
    assert {row[0] for row in values(store, "SELECT ?f { ?s sd:feature ?f }")} <= known
    assert {row[0] for row in values(store, "SELECT ?l { ?s sd:supportedLanguage ?l }")} == {
        SD + "SPARQL11Query",
        SD + "SPARQL11Update",
    }


def test_features_and_formats_are_the_ones_there_are(server: Running) -> None:
    store = server.graph("/sparql")
    assert values(store, "SELECT ?f { ?s sd:feature ?f }") == [(SD + "BasicFederatedQuery",)]  # it is allowed somewhere
    assert len(values(store, "SELECT ?f { ?s sd:resultFormat ?f }")) == len(results.FORMATS)
    point = '"POINT(1 1)"^^<http://www.opengis.net/ont/geosparql#wktLiteral>'
    for function in FUNCTIONS:
        for arguments in (
            point,
            f"{point}, {point}",
            f"{point}, {point}, <http://www.opengis.net/def/uom/OGC/1.0/metre>",
        ):
            Store().query(f"SELECT (<{function}>({arguments}) AS ?x) {{}}")  # raises where there is none


def test_counts_follow_a_commit_and_the_entity_tag_too(server: Running) -> None:
    server.level()
    before = server.get("/.well-known/void")
    assert before.status_code == 200
    assert server.get("/.well-known/void", **{"If-None-Match": before.headers["etag"]}).status_code == 304
    server.commit(added={"": frozenset({f"<{E}new> <{RDF}type> <{E}def/C>", f'<{E}new> <{E}def/p> "x"'})})
    server.level()
    store = server.graph("/.well-known/void")
    part = f"?d void:classPartition ?c . ?c void:class <{E}def/C> ; void:entities ?n ; void:triples ?t ."
    assert values(store, f"SELECT ?n ?t {{ {part} }}") == [("3", "5")]
    part += f" ?c void:propertyPartition ?p . ?p void:property <{E}def/p> ; void:triples ?x ; void:distinctSubjects ?y"
    assert values(store, f"SELECT ?x ?y {{ {part} }}") == [("2", "2")]
    text = f"""SELECT ?t ?s ?o {{ ?d a sd:Dataset ; void:propertyPartition ?p .
        ?p void:property <{E}def/p> ;
        void:triples ?t ; void:distinctSubjects ?s ; void:distinctObjects ?o }}"""
    assert values(store, text) == [("2", "2", "2")]
    total = """SELECT ?t ?s ?o ?p ?c { ?d a sd:Dataset ; void:triples ?t ; void:distinctSubjects ?s ;
        void:distinctObjects ?o ; void:properties ?p ; void:classes ?c }"""
    assert values(store, total) == [("5", "3", "3", "2", "1")]
    assert values(store, f"SELECT ?n {{ ?g sd:name <{E}mine> ; sd:graph/void:triples ?n }}") == [("2",)]
    assert server.get("/.well-known/void").headers["etag"] != before.headers["etag"]
    server.commit(removed={"": frozenset({f"<{E}new> <{RDF}type> <{E}def/C>", f'<{E}new> <{E}def/p> "x"'})})


def test_the_data_set_says_where_it_is_how_it_is_spelled_and_where_it_came_from(server: Running) -> None:
    server.level()
    store = server.graph("/void")
    assert ask(
        store,
        f'ASK {{ ?d a void:Dataset, dcat:Dataset ; void:uriSpace "{E}" ; void:sparqlEndpoint <{server.url}/sparql> }}',
    )
    assert ask(
        store, f"ASK {{ ?d prov:wasGeneratedBy <{E}system/commit/1> ; prov:wasDerivedFrom <{E}system/source/people> }}"
    )
    assert ask(
        store,
        f"ASK {{ <{E}system/commit/1> a prov:Activity ; prov:used <{E}system/source/people> ; prov:endedAtTime ?t }}",
    )
    assert ask(store, f'ASK {{ ?d sh:declare [ sh:prefix "gt" ; sh:namespace "{GT}"^^<{XSD}anyURI> ] }}')
    assert ask(store, "ASK { ?d dcat:distribution [ a dcat:Distribution ; dcat:accessURL ?u ] }")
    assert ask(store, f"ASK {{ ?d void:vocabulary <{E}def/> ; void:exampleResource <{E}a> }}")
    page = server.get("/void", "text/html")
    assert page.headers["content-type"].startswith("text/html") and "def/C" in page.text


def test_an_example_that_runs_says_when_and_one_that_does_not_says_why(server: Running) -> None:
    def stored() -> dict[str, Any]:
        found = server.get("/.well-known/sparql-examples", "application/json").json()["examples"]
        return {one["name"]: one for one in found}

    server.wait(lambda: all(one["state"] for one in stored().values()))
    server.wait(lambda: stored()["01-all"]["state"]["rows"] == 2)  # as of now, whatever there was before
    found = stored()
    assert found["01-all"]["title"] == "Everything of a kind" and found["01-all"]["comment"] == "Also what is new."
    assert not found["01-all"]["broken"] and found["01-all"]["state"]["rows"] == 2
    assert found["02-broken"]["broken"] and "line 2" in found["02-broken"]["state"]["error"]
    assert (found["03-ask"]["kind"], found["03-ask"]["state"]["rows"]) == ("ask", 1)
    store = server.graph("/.well-known/sparql-examples")
    text = """SELECT ?label ?rows { ?e a sh:SPARQLExecutable, sh:SPARQLSelectExecutable ; rdfs:label ?label ;
        sh:select ?q ;
        <https://schema.org/target> ?target ; sh:prefixes/sh:declare/sh:prefix "d" .
        ?run earl:test ?e ; earl:result [ earl:outcome earl:passed ; earl:info ?rows ; dcterms:date ?when ] }"""
    ((label, rows),) = values(store, f"PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> {text}")
    assert label == "Everything of a kind" and rows.startswith("2 rows in ")
    assert ask(store, "ASK { ?e sh:ask ?q . ?run earl:test ?e ; earl:result/earl:outcome earl:passed }")
    assert ask(
        server.graph("/sparql"), "ASK { ?run earl:test ?e ; earl:result [ earl:outcome earl:failed ; earl:info ?why ] }"
    )
    assert any("02-broken" in note for note in server.get("/api/status", "application/json").json()["notes"])

    # A commit that touches what it reads makes it run again; another does not.
    def settled() -> str:
        before = stored()["01-all"]["state"]["ran"]
        time.sleep(1.2)  # a run that an earlier commit asked for may still be due
        return before if stored()["01-all"]["state"]["ran"] == before else ""

    runs = server.wait(settled)
    server.commit(added={"": frozenset({f'<{E}z> <{E}def/elsewhere> "x"'})})
    time.sleep(1.2)
    assert stored()["01-all"]["state"]["ran"] == runs
    server.commit(added={"": frozenset({f"<{E}c> <{RDF}type> <{E}def/C>"})})
    server.wait(lambda: stored()["01-all"]["state"]["rows"] == 3)
    (server.queries / "02-broken.rq").write_text("SELECT ?s WHERE { ?s ?p ?o }")
    server.wait(lambda: (stored()["02-broken"]["state"] or {}).get("rows"))
    assert not stored()["02-broken"]["broken"]
    gone = frozenset({f"<{E}c> <{RDF}type> <{E}def/C>", f'<{E}z> <{E}def/elsewhere> "x"'})
    server.commit(removed={"": gone})


def test_the_index_process_is_started_again_when_it_dies(server: Running) -> None:
    import psutil

    def process() -> Any:
        found = [
            one
            for one in psutil.process_iter(["cmdline"])
            if "sparql.index" in (one.info["cmdline"] or []) and str(server.state) in one.info["cmdline"]
        ]
        return found[0] if found else None

    first = process()
    first.kill()
    server.commit(added={"": frozenset({f'<{E}y> <{E}def/p> "x"'})})
    server.level()
    assert process().pid != first.pid
