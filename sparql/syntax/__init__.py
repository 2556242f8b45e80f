"""One tree of a SPARQL text serves all that need to know what it says: what it writes, what it reads, whom it calls."""

from sparql.syntax.footprint import Footprint, loads, reads, services, writes
from sparql.syntax.parser import parse
from sparql.syntax.printer import text
from sparql.syntax.problem import SyntaxProblem, place
from sparql.syntax.scope import visible
from sparql.syntax.tree import Query, Update, walk

__all__ = [
    "Footprint",
    "Query",
    "SyntaxProblem",
    "Update",
    "loads",
    "parse",
    "place",
    "reads",
    "services",
    "text",
    "visible",
    "walk",
    "writes",
]
