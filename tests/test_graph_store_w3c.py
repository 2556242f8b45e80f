"""The W3C's Graph Store suites and the updates of its protocol suite, request by request, on a plain store."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import rdflib
import requests
from rdflib.collection import Collection
from rdflib.compare import isomorphic
from rdflib.namespace import Namespace

from tests.conftest import ABSENT, SHARED
from tests.endpoint import Endpoint, endpoint

MF = Namespace("http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#")
HT = Namespace("http://www.w3.org/2011/http#")
CNT = Namespace("http://www.w3.org/2011/content#")
W3C = SHARED / "w3c-sparql11"
OURS = "http://www.example/"
NAMED = {
    "get_of_post__existing_graph": "expects the vCard of John Doe, whom the PUT two tests before replaced by Jane Doe, "
    "and not the name the POST just before it added",
}
"""Tests that ask for something else than the requests before them leave, and what."""


def manifests() -> list[Path]:
    found = [W3C / "graph-store-protocol" / f"manifest-{kind}.ttl" for kind in ("direct", "indirect")]
    return [path for path in (*found, W3C / "protocol" / "manifest.ttl") if path.exists()]


@cache
def _manifest(path: Path) -> rdflib.Graph:
    return rdflib.Graph().parse(path, format="turtle", publicID=path.as_uri())


def cases() -> Iterator[tuple[str, Path]]:
    for path in manifests():
        graph = _manifest(path)
        for entry in Collection(graph, graph.value(rdflib.URIRef(path.as_uri()), MF.entries)):
            name = str(entry).rpartition("#")[2]
            if path.parent.name != "protocol" or "update" in name:
                yield name, path


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with endpoint(tmp_path_factory.mktemp("plain"), "merge = false\n", base=OURS) as found:
        yield found


def _fits(status: int, expected: list[str]) -> bool:
    for one in expected:
        name = one.rpartition("#")[2]
        if name.startswith("StatusCode"):
            if name[10] == str(status)[0]:
                return True
        elif CODES[name] == status:
            return True
    return False


CODES = {"OK": 200, "Created": 201, "NoContent": 204, "NotFound": 404, "BadRequest": 400}


@pytest.mark.parametrize(("name", "path"), [pytest.param(*one, id=one[0]) for one in cases()] or [
    pytest.param("", Path(), marks=pytest.mark.skip(reason=f"shared: {ABSENT}"))
])  # fmt: skip
def test_requests_of_the_w3c_are_answered_as_they_should_be(plain: Endpoint, name: str, path: Path) -> None:
    graph = _manifest(path)
    node = next(one for one in graph.subjects(MF.action) if str(one).endswith(f"#{name}"))
    assert plain.update("DROP ALL").status_code == 200
    seen: dict[str, str] = {}
    for request in Collection(graph, graph.value(graph.value(node, MF.action), HT.requests)):
        answer = _send(plain, graph, request, seen)
        expected = graph.value(request, HT.resp)
        statuses = [str(one) for one in graph.objects(expected, MF.expectedStatus)]
        assert _fits(answer.status_code, statuses), (answer.request.url, answer.status_code, answer.text, statuses)
        boolean = graph.value(expected, MF.expectedBoolean)
        if boolean is not None:
            assert answer.json()["boolean"] == boolean.toPython()
        variable = graph.value(expected, MF.expectedLocation)
        if variable is not None:
            seen[str(variable)] = answer.headers["Location"]
        body = graph.value(expected, HT.body)
        if body is not None:
            assert answer.headers["Content-Type"] == "text/turtle; charset=utf-8"
            told = rdflib.Graph().parse(data=answer.text, format="turtle")
            assert isomorphic(told, rdflib.Graph().parse(data=str(graph.value(body, CNT.chars)), format="turtle"))


def _send(plain: Endpoint, graph: rdflib.Graph, request: Any, seen: dict[str, str]) -> requests.Response:
    def filled(text: str) -> str:
        for variable, value in seen.items():
            text = text.replace(variable, value)
        return text

    path = filled(str(graph.value(request, HT.absolutePath))).replace("/gsp", "/store", 1)
    headers = {}
    listed = graph.value(request, HT.headers)
    for one in Collection(graph, listed) if listed is not None else ():
        headers[str(graph.value(one, HT.fieldName))] = str(graph.value(one, HT.fieldValue))
    body = graph.value(request, HT.body)
    data = None
    if body is not None:
        encoding = str(graph.value(body, CNT.characterEncoding) or "UTF-8")
        data = filled(str(graph.value(body, CNT.chars))).encode(encoding)
    return plain.send(str(graph.value(request, HT.methodName)), path.lstrip("/"), data=data, headers=headers)


# -- the suite before that, whose requests are written in its comments


def deprecated() -> list[tuple[str, str]]:
    path = W3C / "http-rdf-update" / "manifest.ttl"
    if not path.exists():
        return []
    graph = rdflib.Graph().parse(path, format="turtle", publicID=path.as_uri())
    out = []
    for entry in Collection(graph, graph.value(rdflib.URIRef(path.as_uri()), MF.entries)):
        text = next(str(one) for one in graph.objects(entry, rdflib.RDFS.comment) if "#### Request" in str(one))
        out.append((str(entry).rpartition("#")[2], text))
    return out


def test_the_older_graph_store_suite_is_answered_in_its_order(plain: Endpoint) -> None:
    found = deprecated()
    if not found:
        pytest.skip(f"shared: {ABSENT}")
    assert plain.update("DROP ALL").status_code == 200
    plain.send("PUT", "store/person/2.ttl", data="<x:a> <x:b> <x:c> .", headers={"Content-Type": "text/turtle"})
    location, different = "", {}
    for name, comment in found:
        asked, told = (
            textwrap.dedent(part).strip()
            for part in re.split(r"#### (?:Request|Response)\n", comment.replace("\r", ""))[1:]
        )
        head, _, data = asked.partition("\n\n")
        lines = head.replace("\nHost: $HOST$", "").split("\n")
        method, path, _ = lines[0].split(" ")
        path = path.replace("http://$HOST$/$GRAPHSTORE$", f"{OURS}store").replace("$GRAPHSTORE$", "store")
        path = path.replace("$NEWPATH$", location.replace(OURS, ""))
        headers = dict(line.split(": ", 1) for line in lines[1:])
        if "boundary" in headers.get("Content-Type", ""):
            data = data.replace("\n", "\r\n") + "\r\n"
            data = data.replace('"Doe"', '"Doe" .').replace('"Jane"', '"Jane" .')
        data = data.replace('foaf:name "Jane Doe"', 'foaf:name "Jane Doe" .')  # the suite forgets the full stop
        answer = plain.send(
            method,
            path,
            data=data.replace("$HOST$/$GRAPHSTORE$", "www.example/store").encode() or None,
            headers=headers,
        )
        location = answer.headers.get("Location", location)
        status, _, rest = told.partition("\n")
        if answer.status_code != int(status.split()[0]):
            different[name] = f"{answer.status_code}, not {status}: {answer.text}"
        elif "\n\n" in rest:
            expected = rest.partition("\n\n")[2].replace("$HOST$/$GRAPHSTORE$", "www.example/store")
            graphs = [rdflib.Graph().parse(data=text, format="turtle") for text in (answer.text, expected)]
            if not isomorphic(*graphs):
                different[name] = answer.text
    assert set(different) == set(NAMED), different
