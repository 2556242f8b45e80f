"""RDF needs no mapping, only the store's spelling: what the file says is what its record says."""

from __future__ import annotations

from pyoxigraph import RdfFormat, parse

from ontology.facts import FactsError, statement
from sources.record import Record
from transforms.iri import DEFAULT_BASE
from transforms.mapping import Mapping, MappingError, version_of


def rdf_mapping(source: str, base: str = DEFAULT_BASE) -> Mapping:
    """The mapping of records whose data is `{"statements": [N-Triples text, ...]}`, blank nodes already named.

    Raises MappingError for a statement that is not N-Triples or not ground.
    """

    def program(record: Record) -> list[str]:
        text = "".join(f"{_bare(line)} .\n" for line in record.data["statements"])
        try:
            return [statement(quad.triple) for quad in parse(text, format=RdfFormat.N_TRIPLES)]
        except (SyntaxError, FactsError) as wrong:
            problem = f"it holds a statement that cannot be stored: {str(wrong).rstrip('.')}"
            raise MappingError(record.locator, "", None, problem) from wrong

    return Mapping(source, base, version_of("rdf", source, base), program)


def _bare(line: str) -> str:
    return line[:-2].rstrip() if line.endswith(" .") else line
