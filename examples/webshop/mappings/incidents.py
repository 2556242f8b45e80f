"""An incident names the services it hit in a list, which is why it is mapped in Python."""

from collections.abc import Iterable

from pyoxigraph import Literal, NamedNode, Triple

from sources.record import Record
from transforms.iri import RDFS, A, iri

SHOP = "https://webshop.example/ns#"
DATETIME = NamedNode("http://www.w3.org/2001/XMLSchema#dateTime")


def incident(record: Record) -> Iterable[Triple]:
    """One line of the incident log is one shop:Incident."""
    data = record.data
    me = iri("incident", data["id"])
    yield Triple(me, A, NamedNode(SHOP + "Incident"))
    yield Triple(me, RDFS.label, Literal(data["title"]))
    yield Triple(me, NamedNode(SHOP + "severity"), Literal(data["severity"]))
    for name in data["services"]:
        yield Triple(me, NamedNode(SHOP + "affected"), iri("service", name))
    yield Triple(me, NamedNode(SHOP + "lead"), iri("person", data["lead"]))
    for column in ("opened", "closed"):
        if data[column]:
            yield Triple(me, NamedNode(SHOP + column), Literal(data[column], datatype=DATETIME))
