"""An RDF Patch is an update in lines: what it adds and deletes, in its order."""

from __future__ import annotations

from pyoxigraph import RdfFormat, parse

from sparql.server.problem import Problem

VERBS = {"A": "INSERT DATA", "D": "DELETE DATA"}
HEADERS = frozenset(("H", "TX", "TC", "PA", "TA"))


def as_update(text: str) -> str:
    """The update that does the same. Raises Problem 400, with the line, for what is no patch of one graph."""
    prefixes: list[str] = []
    steps: list[tuple[str, list[str]]] = []
    for number, line in enumerate(text.split("\n"), 1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        rest = rest.removesuffix(".").strip()
        if word == "TA":
            raise _wrong("The patch is aborted (TA).", number)
        if word == "PA":
            name, _, iri = rest.partition(" ")
            prefixes.append(f"PREFIX {name.strip(':')}: {iri.strip()}".replace('"', ""))
        elif word in VERBS:
            if not steps or steps[-1][0] != VERBS[word]:
                steps.append((VERBS[word], []))
            steps[-1][1].append(f"{rest} .")
        elif word.removesuffix(".") not in HEADERS:
            raise _wrong(f"{line[:80]!r} is no line of an RDF Patch.", number)
    start = "\n".join(prefixes) + "\n"
    try:  # a line may only say statements, and not end the braces it will be put in
        for _, lines in steps:
            for _ in parse(start + "\n".join(lines), format=RdfFormat.TURTLE, base_iri="urn:x:"):
                pass
    except (SyntaxError, ValueError) as wrong:
        raise _wrong(f"The patch says what is no statement of one graph: {wrong}", 0) from wrong
    return start + " ;\n".join(f"{verb} {{\n" + "\n".join(lines) + "\n}" for verb, lines in steps)


def _wrong(detail: str, line: int) -> Problem:
    return Problem(400, "not-a-patch", detail, line=line, column=1 if line else 0)
