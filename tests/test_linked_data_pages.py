"""Every IRI of the graph is a page and RDF, over real HTTP: exact to the byte, and harmless whatever others wrote."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import requests
from pyoxigraph import DefaultGraph, NamedNode, Quad, RdfFormat, parse

from sparql.log import Change
from sparql.server import places
from sparql.store import open_store

E = "https://e.example/"
A = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
GT, PROV = "https://w3id.org/graphtide/ns#", "http://www.w3.org/ns/prov#"
START = """
import sys
from pathlib import Path
from sparql.server.config import ServerConfig
from sparql.server.serve import serve
config = ServerConfig(Path(sys.argv[1]), sys.argv[2], port=0, workers=1, spares=0)
serve(config, lambda url: print("READY", url, flush=True))
"""
EVIL = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>"
NT_EVIL = EVIL.replace("\\", "\\\\").replace('"', '\\"')
THING = f"<{E}thing/a/K%C3%A4se%2F1>"
RECORD = f"{E}record/people/a"
JOURNAL = f"{E}system/journal"


def said() -> dict[str, frozenset[str]]:
    mine = frozenset({
        f"{THING} {A} <{E}def/Cheese>", f'{THING} {LABEL} "Käse & Brot"@de', f'{THING} {LABEL} "Cheese"@en',
        f'{THING} <{E}def/note> "{NT_EVIL}"', f"{THING} <{E}def/near> <{E}thing/a/Ünï>",
        f"{THING} <{E}def/page> <javascript:alert(3)>",
    })  # fmt: skip
    many = frozenset(f"<{E}thing/a/n{n:03}> <{E}def/near> <{E}thing/a/hub>" for n in range(60))
    big = frozenset(f'<{E}thing/a/big> <{E}def/n> "{n}"' for n in range(5500))
    journal = frozenset({
        f"<{RECORD}> <{GT}source> <{E}system/source/people>", f'<{RECORD}> <{GT}locator> "people.csv:12"',
        f'<{RECORD}> <{GT}hash> "abc123"', f"<{RECORD}> <{PROV}wasGeneratedBy> <{E}system/commit/1>",
    })  # fmt: skip
    hostile = frozenset({f'<{E}thing/a/x\'onclick=alert(4)> {LABEL} "{NT_EVIL}"'})
    return {
        "": mine | many | big | hostile,
        RECORD: mine,
        JOURNAL: journal,
        f"{E}plain": frozenset({f'{THING} <{E}def/q> "only here"'}),
    }


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    state = tmp_path_factory.mktemp("linked") / "state"
    with open_store(state, E) as store:
        store.commit(Change(added=said()))
    command = [sys.executable, "-c", START, str(state), E]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    url = next(line for line in process.stdout if line.startswith("READY")).split()[1]
    yield url.rstrip("/")
    process.terminate()
    process.wait(20)


def get(url: str, accept: str = "text/html", **options: Any) -> requests.Response:
    return requests.get(url, headers={"Accept": accept}, timeout=20, **options)


class Seen(HTMLParser):
    """The tags, and the attributes of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs


def test_a_thing_is_a_page_at_its_own_path_with_what_is_said_who_said_it_and_what_points_to_it(server: str) -> None:
    page = get(f"{server}/thing/a/K%C3%A4se%2F1")
    assert page.status_code == 200 and page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<h1>Cheese</h1>" in page.text and "Käse &amp; Brot" in page.text
    assert "people.csv:12" in page.text and "abc123" in page.text and 'href="/record/people/a"' in page.text
    assert 'href="/def/Cheese"' in page.text and "only here" in page.text
    other = get(f"{server}/thing/a/%C3%9Cn%C3%AF")  # the graph has the letters themselves
    assert other.status_code == 200 and "What points to it" in other.text


@pytest.mark.parametrize("media, form", [
    ("text/turtle", RdfFormat.TURTLE), ("application/n-triples", RdfFormat.N_TRIPLES),
    ("application/ld+json", RdfFormat.JSON_LD), ("application/rdf+xml", RdfFormat.RDF_XML),
    ("application/trig", RdfFormat.TRIG), ("application/n-quads", RdfFormat.N_QUADS), ("text/n3", RdfFormat.N3),
])  # fmt: skip
def test_a_thing_is_rdf_in_every_form(server: str, media: str, form: RdfFormat) -> None:
    found = get(f"{server}/thing/a/K%C3%A4se%2F1", media)
    assert found.headers["content-type"].startswith(media) and found.headers["vary"] == "Accept"
    quads = set(parse(found.content, form))
    wanted = Quad(NamedNode(THING[1:-1]), NamedNode(f"{E}def/near"), NamedNode(f"{E}thing/a/Ünï"))
    assert wanted in quads
    graphs = form in (RdfFormat.TRIG, RdfFormat.N_QUADS)
    assert any("only here" in str(quad.object) for quad in quads) == graphs  # said, and does not hold
    assert (Quad(wanted.subject, wanted.predicate, wanted.object, NamedNode(RECORD)) in quads) == graphs
    assert graphs or all(quad.graph_name == DefaultGraph() for quad in quads)
    again = requests.get(found.url, headers={"Accept": media, "If-None-Match": found.headers["etag"]}, timeout=20)
    assert again.status_code == 304 and not again.content


def test_a_form_is_chosen_by_quality_by_parameter_and_by_ending(server: str) -> None:
    thing = f"{server}/thing/a/hub"
    assert get(thing, "text/html;q=0.5, text/turtle").headers["content-type"].startswith("text/turtle")
    assert get(thing, "text/turtle;q=0.2, text/*;q=0.5").headers["content-type"].startswith("text/html")
    assert get(thing, "text/html,application/xhtml+xml,*/*;q=0.8").headers["content-type"].startswith("text/html")
    assert get(thing, "*/*").headers["content-type"].startswith("text/turtle")
    assert get(thing, "image/png").status_code == 406
    assert get(f"{thing}?format=jsonld").headers["content-type"] == "application/ld+json"
    assert get(f"{thing}.nt").headers["content-type"].startswith("application/n-triples")
    assert get(f"{thing}?format=nonsense").status_code == 406
    links = requests.utils.parse_header_links(get(thing).headers["link"])
    turtle = next(link["url"] for link in links if link.get("type") == "text/turtle")
    assert get(server + turtle).headers["content-type"].startswith("text/turtle")
    assert requests.head(thing, timeout=20).content == b""


def test_what_others_wrote_is_text_in_a_page_and_never_markup(server: str) -> None:
    for path in ("/thing/a/K%C3%A4se%2F1", "/resource?iri=" + requests.utils.quote(f"{E}thing/a/x'onclick=alert(4)"),
                 f"/resource?iri={requests.utils.quote(E + EVIL)}", "/<script>alert(5)</script>",
                 "/resource?iri=" + requests.utils.quote(f"{E}system/journal"), "/void?format=html",
                 "/resource?iri=javascript:alert(6)"):  # fmt: skip
        page = get(server + path)
        if not page.headers["content-type"].startswith("text/html"):
            assert page.status_code in (400, 404) and page.headers["content-type"] == "application/problem+json"
            continue
        seen = Seen(page.text)
        assert not {"script", "img", "iframe", "object", "svg"} & set(seen.tags), path
        assert not [name for name, _ in seen.attributes if name.startswith("on")], path
        assert not [
            value
            for name, value in seen.attributes
            if name == "href" and not re.match(r"/(?!/)|#|\?|https?:", value or "")
        ]
        assert "script-src" not in page.headers["content-security-policy"]
        assert page.headers["content-security-policy"].startswith("default-src 'none'")
        assert page.headers["x-content-type-options"] == "nosniff"


def test_many_values_are_counted_and_paged(server: str) -> None:
    page = get(f"{server}/thing/a/hub").text
    assert "1&ndash;25 of 60" in page and page.count('href="/thing/a/n0') == 25
    following = re.search(r'href="([^"]*start=25)"', page)
    assert following is not None
    seen = set(re.findall(r"/thing/a/n\d+", page))
    second = get(server + following.group(1).replace("&amp;", "&")).text
    third = get(server + re.findall(r'href="([^"]*start=50)"', second)[0].replace("&amp;", "&")).text
    seen |= set(re.findall(r"/thing/a/n\d+", second)) | set(re.findall(r"/thing/a/n\d+", third))
    assert len(seen) == 60 and "51&ndash;60 of 60" in third


def test_a_document_too_long_links_to_the_next_and_none_is_left_out(server: str) -> None:
    found, seen = get(f"{server}/thing/a/big", "application/n-triples"), set()
    while True:
        seen |= set(found.text.splitlines())
        if "next" not in found.links:
            break
        found = get(server + found.links["next"]["url"], "application/n-triples")
    assert len(seen) == 5500


def test_records_graphs_properties_and_journal_entries_have_pages_too(server: str) -> None:
    assert "What this graph says" in get(f"{server}/record/people/a").text
    assert "61 statements of the graph use it" in get(f"{server}/def/near").text
    assert "people.csv:12" in get(f"{server}/resource", params={"iri": RECORD}).text
    alias = get(f"{server}/id/thing/a/hub?format=turtle", allow_redirects=False)
    assert (alias.status_code, alias.headers["location"]) == (303, "/thing/a/hub?format=turtle")


def test_what_the_graph_does_not_know_is_404_in_the_form_that_was_asked_for(server: str) -> None:
    page, data = get(f"{server}/thing/none"), get(f"{server}/thing/none", "text/turtle")
    assert page.status_code == data.status_code == 404
    assert "Nothing is known of this" in page.text and data.json()["code"] == "not-found"
    assert get(f"{server}/api/nothing-of-ours").json()["code"] == "not-found"
    assert requests.post(f"{server}/thing/a/hub", timeout=20).status_code == 404
    assert get(f"{server}/resource?iri=not%20an%20iri").status_code == 400
    assert get(f"{server}/resource").status_code == 400
    assert get(f"{server}/thing/a/hub?in={E}def/near&start=-1").status_code == 400


@pytest.mark.parametrize("base, iri, path", [
    (E, f"{E}thing/a", "/thing/a"), (E, f"{E}thing/a?x=1", None), (E, f"{E}thing#x", None), (E, f"{E}api/x", None),
    (E, "https://other.example/a", None), (E, f"{E}a//b", None), (E, f"{E}a/../b", None),
    (E, f"{E}a%2Fb", "/a%2Fb"),
    (f"{E}kg/", f"{E}kg/x", "/kg/x"), (f"{E}x#", f"{E}x#a", None),
    (E, f"{E}.well-known/genid/1", "/.well-known/genid/1"),
    (E, f"{E}/evil.example", None), (E, E, None),
])  # fmt: skip
def test_a_link_goes_to_the_path_of_an_iri_only_where_that_leads_back_to_it(
    base: str, iri: str, path: str | None
) -> None:
    found = places.path_of(base, iri)
    assert found == path if path else found.startswith("/resource?iri=")
    if path:
        assert iri in places.of_path(base, path, "")


def test_the_vocabulary_is_a_table_of_terms_and_rdf(server: str) -> None:
    page = get(f"{server}/ns")
    assert 'id="Service"' in page.text and "gt:dependsOn" in page.text
    for media, form in (("text/turtle", RdfFormat.TURTLE), ("application/ld+json", RdfFormat.JSON_LD)):
        found = get(f"{server}/ns", media)
        assert found.headers["content-type"].startswith(media)
        assert any(quad.subject == NamedNode(GT + "Service") for quad in parse(found.content, form))


def test_a_page_is_the_graph_at_the_commit_it_names(server: str, tmp_path: Path) -> None:
    page = get(f"{server}/thing/a/hub")
    assert page.headers["x-graphtide-epoch"] == "1" and "As of commit 1" in page.text
    assert time.strptime(page.headers["x-graphtide-commit-time"][:19], "%Y-%m-%dT%H:%M:%S")
