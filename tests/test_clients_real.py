"""What people use already works as it is: SPARQLWrapper, rdflib, curl, Comunica and a browser's fetch."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import rdflib
import SPARQLWrapper
from rdflib.plugins.stores.sparqlstore import SPARQLStore, SPARQLUpdateStore

from tests.endpoint import TOKEN, Endpoint, endpoint

# SPARQLWrapper and rdflib warn of each other.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*ConjunctiveGraph is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*unexpected returned format:RuntimeWarning"),
]

E = "https://people.example/"
DATA = f"INSERT DATA {{ <{E}ada> <{E}name> 'Ada' ; <{E}knows> <{E}bob> . <{E}bob> <{E}name> 'Bob é' }}"
NAMES = f"SELECT ?name {{ ?s <{E}name> ?name }} ORDER BY ?name"


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """Another origin: a folder served on a port of its own."""
    folder = tmp_path_factory.mktemp("app")
    handler = functools.partial(_Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield folder, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory, origin: tuple[Path, str]) -> Iterator[Endpoint]:
    settings = f'merge = false\nvocabulary = "open"\n[server]\ncors_origins = ["{origin[1]}"]\n'
    with endpoint(tmp_path_factory.mktemp("people"), settings) as found:
        assert found.update(DATA).status_code == 200
        yield found


def test_sparqlwrapper_reads_every_format_and_writes(people: Endpoint) -> None:
    client = SPARQLWrapper.SPARQLWrapper(people.url + "sparql")
    client.setQuery(NAMES)
    client.setReturnFormat(SPARQLWrapper.JSON)
    rows = client.queryAndConvert()["results"]["bindings"]  # type: ignore[index,call-overload]
    assert [row["name"]["value"] for row in rows] == ["Ada", "Bob é"]
    client.setReturnFormat(SPARQLWrapper.XML)
    assert "Bob é" in client.queryAndConvert().toxml()  # type: ignore[union-attr]
    client.setReturnFormat(SPARQLWrapper.CSV)
    assert client.queryAndConvert() == "name\r\nAda\r\nBob é\r\n".encode()
    client.setMethod(SPARQLWrapper.POST)
    client.setReturnFormat(SPARQLWrapper.JSON)
    client.setQuery(f"ASK {{ <{E}ada> <{E}knows> <{E}bob> }}")
    assert client.queryAndConvert()["boolean"] is True  # type: ignore[index,call-overload]
    for form in (SPARQLWrapper.TURTLE, SPARQLWrapper.RDFXML, SPARQLWrapper.JSONLD, SPARQLWrapper.N3):
        client.setQuery(f"CONSTRUCT WHERE {{ ?s <{E}name> ?name }}")
        client.setReturnFormat(form)
        found = client.queryAndConvert()
        graph = found if isinstance(found, rdflib.Graph) else rdflib.Graph().parse(data=found, format="turtle")
        assert len(graph) == 2
    writer = SPARQLWrapper.SPARQLWrapper(people.url + "sparql")
    writer.addCustomHttpHeader("Authorization", f"Bearer {TOKEN}")
    writer.setMethod(SPARQLWrapper.POST)
    writer.setQuery(f"INSERT DATA {{ GRAPH <{E}g> {{ <{E}x> <{E}by> 'SPARQLWrapper' }} }}")
    assert writer.query().response.status in (200, 204)
    assert people.holds(f"GRAPH <{E}g> {{ <{E}x> <{E}by> 'SPARQLWrapper' }}")
    client.setQuery("SELECT * {")
    with pytest.raises(SPARQLWrapper.SPARQLExceptions.QueryBadFormed):
        client.query()


@pytest.mark.parametrize("method", ["GET", "POST", "POST_FORM"])
def test_rdflib_reads_and_writes(people: Endpoint, method: str) -> None:
    graph = rdflib.Graph(SPARQLStore(people.url + "sparql", method=method))
    assert [str(row[0]) for row in graph.query(NAMES)] == ["Ada", "Bob é"]  # type: ignore[index]
    assert (rdflib.URIRef(E + "ada"), rdflib.URIRef(E + "knows"), rdflib.URIRef(E + "bob")) in graph
    assert len(list(graph.triples((None, rdflib.URIRef(E + "name"), None)))) == 2
    store = SPARQLUpdateStore(
        people.url + "sparql", people.url + "sparql", method=method, headers={"Authorization": f"Bearer {TOKEN}"}
    )
    dataset = rdflib.Dataset(store)
    mine = dataset.graph(rdflib.URIRef(f"{E}rdflib/{method}"))
    mine.add((rdflib.URIRef(E + "x"), rdflib.URIRef(E + "by"), rdflib.Literal("rdflib")))
    assert people.holds(f"GRAPH <{E}rdflib/{method}> {{ <{E}x> <{E}by> 'rdflib' }}")
    assert len(mine) == 1
    mine.remove((None, None, None))
    assert not people.holds(f"GRAPH <{E}rdflib/{method}> {{ ?s ?p ?o }}")


def test_curl_asks_as_the_standard_says(people: Endpoint) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not installed")

    def run(*arguments: str) -> str:
        found = subprocess.run([curl, "-sS", *arguments], capture_output=True, timeout=30, check=True)
        return found.stdout.decode()

    url = people.url + "sparql"
    csv = "name\r\nAda\r\nBob é\r\n"
    accept = ("-H", "Accept: text/csv")
    assert run(*accept, "-G", "--data-urlencode", f"query={NAMES}", url) == csv
    assert run(*accept, "--data-urlencode", f"query={NAMES}", url) == csv
    assert run(*accept, "-H", "Content-Type: application/sparql-query", "--data-binary", NAMES, url) == csv
    assert (
        run(*accept, "-X", "QUERY", "-H", "Content-Type: application/sparql-query", "--data-binary", NAMES, url) == csv
    )
    assert run(*accept, "--compressed", "-G", "--data-urlencode", f"query={NAMES}", url) == csv
    assert run(*accept, "--http1.0", "-G", "--data-urlencode", f"query={NAMES}", url) == csv
    head = run("-I", "-G", *accept, "--data-urlencode", f"query={NAMES}", url)
    assert " 200 " in head and f"content-length: {len(csv.encode())}" in head.lower()


BROWSER = """
<!doctype html><title>waiting</title><body>waiting<script>
(async () => {
  const say = {};
  const ask = (options, query) => fetch("%(url)s?query=" + encodeURIComponent(query), options);
  const accept = {Accept: "application/sparql-results+json"};
  const found = await ask({headers: accept}, %(query)s);
  say.names = (await found.json()).results.bindings.map(row => row.name.value);
  say.epoch = Number(found.headers.get("X-Graphtide-Epoch")) > 0;
  say.etag = found.headers.get("ETag") !== null;
  const post = await fetch("%(url)s", {method: "POST", headers: {...accept, "Content-Type": "application/sparql-query"},
    body: "ASK {}"});
  say.post = (await post.json()).boolean;
  const wrong = await ask({headers: accept}, "SELECT * {");
  say.wrong = [wrong.status, (await wrong.json()).code];
  document.body.textContent = JSON.stringify(say);
})().catch(wrong => { document.body.textContent = JSON.stringify({error: String(wrong)}); });
</script>
"""


def dump(url: str, folder: Path) -> str:
    """The page as a browser has it when its scripts are through."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip("no browser: install chromium (apt-get install chromium)")
    found = subprocess.run(
        [chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=8000",
         f"--user-data-dir={folder}", "--dump-dom", url],
        capture_output=True, text=True, timeout=60, check=False, env={**os.environ, "HOME": str(folder)},
    )  # fmt: skip
    return found.stdout


@pytest.mark.soak
def test_a_browsers_fetch_reads_from_an_allowed_origin_and_from_no_other(
    people: Endpoint, origin: tuple[Path, str], tmp_path: Path
) -> None:
    folder, url = origin
    page = BROWSER % {"url": people.url + "sparql", "query": json.dumps(NAMES)}
    (folder / "app.html").write_text(page)
    found = dump(f"{url}/app.html", tmp_path)
    said = {"names": ["Ada", "Bob é"], "epoch": True, "etag": True, "post": True, "wrong": [400, "query-error"]}
    assert json.dumps(said, ensure_ascii=False, separators=(",", ":")) in found, found
    other = dump(f"{url.replace('127.0.0.1', 'localhost')}/app.html", tmp_path)
    assert "Failed to fetch" in other, other


COMUNICA = """
import {QueryEngine} from "@comunica/query-sparql";
const [url, query] = process.argv.slice(2);
const engine = new QueryEngine();
for (const source of [{type: "sparql", value: url}, url]) {
  const found = await engine.queryBindings(query, {sources: [source]});
  console.log(JSON.stringify((await found.toArray()).map(row => row.get("name").value).sort()));
}
console.log(await engine.queryBoolean("ASK { ?s ?p ?o }", {sources: [{type: "sparql", value: url}]}));
const quads = await engine.queryQuads("CONSTRUCT WHERE { ?s ?p ?o }", {sources: [{type: "sparql", value: url}]});
console.log((await quads.toArray()).length);
"""


@pytest.mark.soak
def test_comunica_reads_it(people: Endpoint, tmp_path: Path) -> None:
    npm, node = shutil.which("npm"), shutil.which("node")
    if npm is None or node is None:
        pytest.skip("npm and node are not installed")
    got = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--silent", "@comunica/query-sparql@4"],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if got.returncode:
        pytest.skip(f"npm could not install @comunica/query-sparql: {got.stderr[-300:]}")
    (tmp_path / "ask.mjs").write_text(COMUNICA)
    found = subprocess.run(
        [node, "ask.mjs", people.url + "sparql", NAMES],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    lines = found.stdout.split("\n")
    assert lines[:3] == ['["Ada","Bob é"]', '["Ada","Bob é"]', "true"], found.stdout + found.stderr
    assert int(lines[3]) >= 3
