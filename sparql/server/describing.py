"""Whoever has an IRI of ours can ask what it is, and whoever has the endpoint can ask what it does and holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from sparql.index import importance
from sparql.index.process import IndexProcess
from sparql.index.reading import Index, IndexMissing, at, when
from sparql.index.search import local
from sparql.server import (
    documents,
    html,
    places,
    resource,
    resource_page,
    vocabulary,
    void,
    void_page,
)
from sparql.server import examples as stored
from sparql.server import service_description as service
from sparql.server.documents import HTML, Document, Form
from sparql.server.gate import client_of
from sparql.server.problem import Problem
from sparql.server.resource_page import Writing
from sparql.server.serving import Serving

T = TypeVar("T")
VOID, EXAMPLES = "/.well-known/void", "/.well-known/sparql-examples"
FEW_GRAPHS = 100
"""How many named graphs the service description lists; that of the data set has more."""
GT_PREFIXES = {
    "gt": "https://w3id.org/graphtide/ns#",
    "sh": "http://www.w3.org/ns/shacl#",
    "prov": "http://www.w3.org/ns/prov#",
}
WRITTEN = 32
"""How many descriptions are kept as written, for the graph as it is now."""
LONGEST = 8192
"""Characters of an IRI that is asked for."""


def routes(serving: Serving) -> list[Route]:
    """What describes the endpoint and the graph; `fallback` is what describes the things in it."""
    me = _of(serving)
    serving.on_start(me.indexes.running)
    serving.on_start(me.examples.lifespan)
    return [
        Route(VOID, me.about_data),
        Route("/void", me.about_data),
        Route(EXAMPLES, me.stored),
        Route("/ns", me.vocabulary),
        Route("/resource", me.any_resource),
        Route("/id/{rest:path}", me.by_id),
    ]


async def service_description(serving: Serving, request: Request) -> Response:
    """What the endpoint is, in the RDF form that is asked for. Raises Problem 406."""
    return await _of(serving).about_service(request)


def examples(serving: Serving) -> stored.Examples:
    """The stored examples, and how they stand."""
    return _of(serving).examples


def fallback(serving: Serving, otherwise: Callable[[Scope, Receive, Send], object]) -> _Fallback:
    """What answers a path that is no route: the thing whose IRI it is."""
    return _Fallback(_of(serving), otherwise)


def _of(serving: Serving) -> _Describing:
    found = getattr(serving, "describing", None)
    if found is None:
        found = _Describing(serving)
        serving.describing = found  # type: ignore[attr-defined]
    assert isinstance(found, _Describing)
    return found


class _Describing:
    def __init__(self, serving: Serving) -> None:
        config = serving.config
        self.serving, self.base = serving, config.base
        self.indexes = IndexProcess(config.state, config.base)
        self.examples = stored.Examples(serving)
        self._statistics, self._search = Index(config.state, "statistics"), Index(config.state, "search")
        self._standing: tuple[tuple[int, str, int], void.Standing] | None = None
        self._written: dict[tuple[object, ...], tuple[bytes, str]] = {}

    # -- the endpoint and the data set

    async def about_service(self, request: Request) -> Response:
        return await self._dataset(request, documents.chosen(request, page=False), whole=False)

    async def about_data(self, request: Request) -> Response:
        return await self._dataset(request, documents.chosen(request, page=True), whole=True)

    async def _dataset(self, request: Request, form: Form, *, whole: bool) -> Response:
        """The service and its data set; the partitions by class and property only where they are asked for."""
        try:
            found = await self._off_loop(self._stand)
        except IndexMissing as none:
            if whole:
                raise Problem(503, "index-not-ready", str(none), headers={"Retry-After": "2"}) from none
            found = void.NOTHING  # what the service can do does not depend on what is in it
        listed = await self._off_loop(self.examples.all)
        links = documents.alternates(f"{self._path(request)}/{'void' if whole else 'sparql'}", page=whole)
        headers = {"X-Graphtide-Epoch": str(found.commit), "Link": ", ".join(links)}
        if found.time:
            headers["X-Graphtide-Commit-Time"] = found.time
        if form is HTML:
            write = await self._off_loop(lambda: self._writing(request, _terms(found)))
            return html.respond(request, void_page.page(found, listed, write), headers)

        root, broken = documents.root(request), tuple(one for one in listed if one.broken)
        key = (found.commit, found.time, found.examples, form.name, root, whole, () if whole else repr(broken))

        def written() -> Response:
            known = self._written.get(key)
            if known is None:
                if len(self._written) >= WRITTEN:
                    self._written.clear()
                known = self._written[key] = write_out()
            return documents.sent(request, *known, headers)

        def write_out() -> tuple[bytes, str]:
            doc = Document()
            dataset = void.describe(doc, root, self.base, found, self.serving.prefixes, whole=whole)
            service.describe(doc, root, self.serving.config, dataset, plain=found.plain)
            void.graph_collection(doc, dataset, f"{root}{VOID}", found, most=void.MOST_GRAPHS if whole else FEW_GRAPHS)
            doc.link(dataset, "http://www.w3.org/2000/01/rdf-schema#seeAlso", f"{root}{EXAMPLES}")
            if not whole:  # how an example went changes without a commit
                stored.describe(doc, root, list(broken), dataset)
            prefixes = {**self.serving.prefixes, **void.PREFIXES, **GT_PREFIXES}
            return documents.body(form, doc.statements, prefixes), form.media_type

        return await self._off_loop(written)

    def _stand(self) -> void.Standing:
        """What is known of the graph, read again only when an index has moved. Raises IndexMissing."""
        with self._statistics.read() as db:
            commit, time = at(db), when(db)
        try:
            named = self._search.commit
        except IndexMissing:
            named = -1
        key = (commit, time, named)
        known = self._standing
        if known is None or known[0] != key:
            known = self._standing = key, void.standing(self._statistics, self._search, self.base)
        return known[1]

    async def stored(self, request: Request) -> Response:
        if request.query_params.get("format") == "json" or _wants_json(request):
            found = await self._off_loop(self.examples.all)
            return JSONResponse(
                {"examples": [stored.about(one) for one in found]},
                headers={"Cache-Control": "no-cache", "Vary": "Accept"},
            )
        form = documents.chosen(request, page=True)
        if form is HTML:
            return RedirectResponse(f"{self._path(request)}/void?format=html#examples", 303, headers={"Vary": "Accept"})
        doc, root = Document(), documents.root(request)
        stored.describe(doc, root, await self._off_loop(self.examples.all), f"{root}{VOID}#dataset")
        prefixes = {**self.serving.prefixes, **void.PREFIXES, **GT_PREFIXES}
        return documents.respond(request, form, doc.statements, prefixes=prefixes)

    async def vocabulary(self, request: Request) -> Response:
        form = documents.chosen(request, page=True)
        headers = {"Link": ", ".join(documents.alternates(f"{self._path(request)}/ns", page=True))}
        if form is HTML:
            return html.respond(request, vocabulary.page(self._path(request)), headers)
        if form.name == "turtle":  # with the comments and the order it was written in
            return documents.sent(request, vocabulary.packaged(), form.media_type, headers)
        return documents.respond(request, form, vocabulary.statements(), prefixes=GT_PREFIXES, headers=headers)

    # -- the things in it

    async def any_resource(self, request: Request) -> Response:
        iri = request.query_params.get("iri", "")
        if not iri:
            raise Problem(400, "no-iri", "Say which IRI is meant, as `iri=`.")
        return await self._resource(request, [iri], documents.chosen(request, page=True))

    async def by_id(self, request: Request) -> Response:
        """`/id/service/x` is where `{base}service/x` is."""
        raw = _raw_path(request)
        rest = raw[raw.index("/id/") + 4 :]
        query = request.url.query
        where = places.path_of(self.base, self.base + rest)
        if query:
            where += ("&" if "?" in where else "?") + query
        return RedirectResponse(self._path(request) + where, 303)

    async def by_path(self, request: Request) -> Response:
        """The thing whose IRI the path is; else, with a file name's ending for a form, the one before it."""
        raw, root = _raw_path(request), self._path(request)
        path = raw[len(root) :] if root and raw.startswith(root) else raw
        iris = list(places.of_path(self.base, path, "" if _only_ours(request) else request.url.query))
        if not iris or places.ours(path):
            raise HTTPException(404)
        form = documents.chosen(request, page=True)
        stem, dot, ending = path.rpartition(".")
        other = documents.named(ending, (*documents.RDF_FORMS, HTML)) if dot and "/" not in ending else None
        if other is None:
            return await self._resource(request, iris, form)
        try:
            return await self._resource(request, iris, form, page_if_missing=False)
        except Problem as none:
            if none.status != 404:
                raise
        return await self._resource(request, list(places.of_path(self.base, stem, "")), other)

    async def _resource(
        self, request: Request, iris: list[str], form: Form, *, page_if_missing: bool = True
    ) -> Response:
        client = client_of(request)
        iris = [iri for iri in iris if len(iri) <= LONGEST]
        if not iris:
            raise Problem(414, "iri-too-long", f"An IRI that is asked for has at most {LONGEST} characters.")
        asked = _asked(request)
        found = None
        for iri in iris:
            if len(iris) > 1 and not resource.absolute(iri):
                continue
            found = await resource.look_up(self.serving, iri, client, asked)
            if found.known:
                break
        if found is None or not found.known:
            if form is HTML and page_if_missing:
                markup = resource_page.missing(iris[-1], self._bare_writing(request))
                return Response(
                    markup.encode("utf-8", "replace"),
                    404,
                    {**html.HEADERS, "Vary": "Accept"},
                    "text/html; charset=utf-8",
                )
            raise Problem(
                404, "not-found", f"The graph says nothing of <{iris[-1][:500]}>.", headers={"Vary": "Accept"}
            )
        headers = self._headers(request, found.iri, found.epoch, found.time)
        if form is HTML:
            page = found
            write = await self._off_loop(lambda: self._writing(request, resource_page.mentioned(page)))
            return html.respond(request, resource_page.resource(found, write, asked), headers)
        return await self._data(request, found.iri, form, client)

    async def _data(self, request: Request, iri: str, form: Form, client: str) -> Response:
        number = request.query_params.get("page", "0")
        if not number.isascii() or not number.isdigit() or len(number) > 6:
            raise Problem(400, "bad-page", f"page={number[:50]!r} is not a number from 0 to 999999.")
        quads, more, epoch, time = await resource.statements(self.serving, iri, client, int(number), graphs=form.graphs)
        headers = self._headers(request, iri, epoch, time)
        if more:
            following = f"{self._here(request, iri)}&format={form.name}&page={int(number) + 1}"
            headers["Link"] += f', <{following}>; rel="next"'
        return documents.respond(request, form, quads, prefixes=self.serving.prefixes, headers=headers)

    def _headers(self, request: Request, iri: str, epoch: int, time: str) -> dict[str, str]:
        here = self._here(request, iri)
        path, _, parameters = here.partition("?")
        links = [f'<{quote(iri, safe=_IRI)}>; rel="describes"']
        links += documents.alternates(path, page=True, parameters=f"{parameters}&")
        found = {"X-Graphtide-Epoch": str(epoch), "Link": ", ".join(links)}
        if time:
            found["X-Graphtide-Commit-Time"] = time
        return found

    # -- how

    def _here(self, request: Request, iri: str) -> str:
        return f"{self._path(request)}/resource?iri={quote(iri, safe='')}"

    def _path(self, request: Request) -> str:
        return str(request.scope.get("root_path", "")).rstrip("/")

    def _bare_writing(self, request: Request) -> Writing:
        return Writing(self.base, self.serving.prefixes, {}, self._path(request))

    def _writing(self, request: Request, iris: list[str]) -> Writing:
        """How names are written, with the labels the index has."""
        labels: Mapping[str, str] = {}
        try:
            with self._search.read() as db:
                known = importance.of(db, iris)
                labels = {iri: one.label for iri, one in known.items() if one.label != local(iri)}
        except IndexMissing:
            pass
        return Writing(self.base, self.serving.prefixes, labels, self._path(request))

    async def _off_loop(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self.serving.writers, work)


class _Fallback:
    """An ASGI application for what no route takes."""

    def __init__(self, me: _Describing, otherwise: Callable[[Scope, Receive, Send], object]) -> None:
        self.me, self.otherwise = me, otherwise

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] in ("GET", "HEAD"):
            response = await self.me.by_path(Request(scope, receive))
            await response(scope, receive, send)
            return
        await self.otherwise(scope, receive, send)  # type: ignore[misc]


_IRI = "-._~:/?#[]@!$&'()*+,;=%"


def _terms(found: void.Standing) -> list[str]:
    names = [name[1:-1] for name in (*found.counts.classes, *found.counts.properties) if name.startswith("<")]
    return names + [source for source, *_ in found.syncs]


def _raw_path(request: Request) -> str:
    raw = request.scope.get("raw_path")
    if isinstance(raw, bytes):
        return raw.partition(b"?")[0].decode("latin-1")
    return quote(str(request.scope["path"]))


def _only_ours(request: Request) -> bool:
    """Whether the parameters of a request are all about how to show the thing, and none is part of its IRI."""
    return set(request.query_params) <= {"format", "page", "in", "out", "graph", "start"}


def _asked(request: Request) -> resource.Asked:
    given = request.query_params
    start = given.get("start", "0")
    if not start.isascii() or not start.isdigit() or len(start) > 12:
        raise Problem(400, "bad-start", f"start={start[:50]!r} is not a number.")
    for direction in ("out", "in", "graph"):
        if direction in given:
            name = "" if direction == "graph" else given[direction]
            if name and not resource.absolute(name):
                raise Problem(400, "bad-iri", f"{direction}={name[:200]!r} is not an IRI.")
            return resource.Asked(direction, name, int(start))
    return resource.Asked()


def _wants_json(request: Request) -> bool:
    first = request.headers.get("accept", "").partition(",")[0].partition(";")[0].strip().lower()
    return first == "application/json"
