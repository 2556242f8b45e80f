"""The endpoint says of itself what is true of it: languages, features, forms, functions, and what it serves."""

from __future__ import annotations

from sparql.query import results
from sparql.server.config import ServerConfig
from sparql.server.documents import RDF_FORMS, Document
from sparql.server.void import FORMATS, SD, W3C_FORMATS

MEDIA = "https://www.iana.org/assignments/media-types/"
RESULTS = {
    "json": "SPARQL_Results_JSON", "xml": "SPARQL_Results_XML", "csv": "SPARQL_Results_CSV",
    "tsv": "SPARQL_Results_TSV",
}  # fmt: skip
GEOF = "http://www.opengis.net/def/function/geosparql/"
# Those the engine evaluates (test_describing_service asks each).
FUNCTIONS = tuple(GEOF + name for name in (
    "area", "asGeoJSON", "convexHull", "difference", "dimension", "distance", "ehEquals", "envelope", "getSRID",
    "intersection", "isEmpty", "sfContains", "sfCrosses", "sfDisjoint", "sfEquals", "sfIntersects", "sfOverlaps",
    "sfTouches", "sfWithin", "union",
))  # fmt: skip


def describe(doc: Document, root: str, config: ServerConfig, dataset: str, *, plain: bool) -> str:
    """The document says what the service at `root` can do. Returns the IRI of the service."""
    me = f"{root}/sparql#service"
    doc.type(me, SD + "Service")
    doc.link(me, SD + "endpoint", f"{root}/sparql")
    doc.link(me, SD + "supportedLanguage", *(SD + name for name in ("SPARQL11Query", "SPARQL11Update")))
    doc.link(me, SD + "defaultEntailmentRegime", "http://www.w3.org/ns/entailment/Simple")
    if config.service_allow:
        doc.link(me, SD + "feature", SD + "BasicFederatedQuery")
    if plain:
        doc.link(me, SD + "feature", SD + "EmptyGraphs")
    doc.link(me, SD + "resultFormat", *_result_formats())
    doc.link(me, SD + "inputFormat", *(FORMATS + W3C_FORMATS[form.name] for form in RDF_FORMS))
    doc.link(me, SD + "extensionFunction", *FUNCTIONS)
    for function in FUNCTIONS:
        doc.type(function, SD + "Function")
    doc.link(me, SD + "defaultDataset", dataset)
    return me


def _result_formats() -> list[str]:
    found: dict[str, None] = {}
    for form in results.FORMATS:
        name = RESULTS.get(form.name) or W3C_FORMATS.get(form.name)
        found[FORMATS + name if name else MEDIA + form.media_type] = None
    return list(found)
