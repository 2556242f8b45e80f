"""Whoever can ask SPARQL can read the system graphs: where a source stands, what was refused, what is reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from ontology.facts import GT, PROV, SH, string
from sparql.names import Names


class Asked(Protocol):
    """Whatever answers SPARQL over the whole dataset, as a pyoxigraph store does."""

    def query(self, text: str, /) -> Any: ...


def source_rows(graph: Asked, names: Names) -> list[dict[str, Any]]:
    """Each source the graph knows, sorted by name: name, records, scopes, rejected, held, message, notes, plan."""
    text = f"""SELECT ?n ?r ?h ?p {{ GRAPH <{names.cursor}> {{
        ?s <{GT}records> ?r ; <{GT}source> ?n . OPTIONAL {{ ?s <{GT}held> ?h }} OPTIONAL {{ ?s <{GT}plan> ?p }} }} }}"""
    rows = []
    for found in graph.query(text):
        name = found["n"].value
        rejected, held = standing(graph, names, name)
        broken = held_scopes(graph, names, name)
        message = found["h"].value if found["h"] else "; ".join(dict.fromkeys(broken.values()))
        rows.append({
            "name": name, "records": int(found["r"].value), "rejected": rejected, "held": held, "message": message,
            "scopes": _number(graph, f'''SELECT (COUNT(*) AS ?n) {{ GRAPH <{names.cursor}> {{
                ?s <{GT}source> {string(name)} ; <{GT}scope> ?x }} }}'''),
            "held_scopes": broken, "notes": notes(graph, names, name), "plan": found["p"].value if found["p"] else "",
            "state": "held" if message else "ok",
        })  # fmt: skip
    return sorted(rows, key=lambda row: str(row["name"]))


def standing(graph: Asked, names: Names, source: str) -> tuple[int, int]:
    """(records refused, records held) of a source. Held: last good facts stand in for a newer version."""
    me = names.source(source)
    refused = f"""SELECT (COUNT(DISTINCT ?g) AS ?n) {{
        GRAPH <{names.quarantine}> {{ ?r <{GT}source> <{me}> ; <{GT}record> ?g }} }}"""
    rejected = _number(graph, refused)
    broken = _number(
        graph,
        f"""SELECT (COUNT(*) AS ?n) {{ GRAPH <{names.cursor}> {{
        ?s <{GT}source> {string(source)} ; <{GT}scope> ?x ; <{GT}held> ?h }} }}""",
    )
    whole = _number(graph, f"SELECT (COUNT(*) AS ?n) {{ GRAPH <{names.cursor}> {{ <{me}> <{GT}held> ?h }} }}")
    if not rejected and not broken and not whole:
        return 0, 0
    if whole:
        return rejected, _number(
            graph,
            f"""SELECT (COUNT(*) AS ?n) {{ GRAPH <{names.journal}> {{
            ?g <{GT}source> <{me}> }} }}""",
        )
    held = f"""SELECT (COUNT(DISTINCT ?g) AS ?n) {{
        {{ GRAPH <{names.quarantine}> {{ ?r <{GT}source> <{me}> ; <{GT}record> ?g }}
           GRAPH <{names.journal}> {{ ?g <{GT}source> <{me}> }} }}
        UNION
        {{ GRAPH <{names.cursor}> {{ ?s <{GT}source> {string(source)} ; <{GT}scope> ?x ; <{GT}held> ?h }}
           GRAPH <{names.journal}> {{ ?g <{GT}inScope> ?s }} }} }}"""
    return rejected, _number(graph, held)


def refused(graph: Asked, names: Names, source: str) -> tuple[int, int]:
    """(records refused, those of them whose last good facts stand) of a source."""
    me = names.source(source)
    claims = f"GRAPH <{names.quarantine}> {{ ?r <{GT}source> <{me}> ; <{GT}record> ?g }}"
    stands = f"GRAPH <{names.journal}> {{ ?g <{GT}source> <{me}> }}"
    return (
        _number(graph, f"SELECT (COUNT(DISTINCT ?g) AS ?n) {{ {claims} }}"),
        _number(graph, f"SELECT (COUNT(DISTINCT ?g) AS ?n) {{ {claims} {stands} }}"),
    )


def held_scopes(graph: Asked, names: Names, source: str) -> dict[str, str]:
    """The scopes of a source that could not be read, and why."""
    text = f"""SELECT ?n ?h {{ GRAPH <{names.cursor}> {{
        ?s <{GT}source> {string(source)} ; <{GT}scope> ?n ; <{GT}held> ?h }} }} ORDER BY ?n"""
    return {row["n"].value: row["h"].value for row in graph.query(text)}


def rules(graph: Asked, names: Names) -> list[dict[str, str]]:
    """Each rule the graph knows, sorted by name: name, version, and the message while its last good facts stand."""
    text = f"""SELECT ?n ?p ?h {{ GRAPH <{names.cursor}> {{
        ?s <{GT}source> ?n ; <{GT}plan> ?p . OPTIONAL {{ ?s <{GT}held> ?h }} FILTER(STRSTARTS(?n, "rule/")) }} }}"""
    rows = [
        {"name": row["n"].value[len("rule/") :], "version": row["p"].value, "message": _value(row["h"])}
        for row in graph.query(text)
    ]
    return sorted(rows, key=lambda row: row["name"])


def notes(graph: Asked, names: Names, source: str) -> list[str]:
    """What is said once about a source, sorted."""
    text = f"SELECT ?n {{ GRAPH <{names.cursor}> {{ <{names.source(source)}> <{GT}note> ?n }} }}"
    return sorted(row["n"].value for row in graph.query(text))


def refusals(graph: Asked, names: Names, source: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
    """Findings about refused records, a row each: source, record, locator, and what Violation.to_dict() says."""
    return _findings(graph, names, "refused", source, limit)


def reported(
    graph: Asked, names: Names, source: str | None = None, limit: int = 100, *, how: str = ""
) -> list[dict[str, Any]]:
    """Findings that refuse nothing: warnings of accepted records (`how` "local"), what needs other records ("wide")."""
    return _findings(graph, names, "reported", source, limit, how)


def violations(graph: Asked, names: Names, source: str | None = None, limit: int = 100) -> list[dict[str, Any]]:
    """All findings, refusals first."""
    first = refusals(graph, names, source, limit)
    return first + (reported(graph, names, source, limit - len(first)) if len(first) < limit else [])


def checks(graph: Asked, names: Names, source: str) -> dict[str, dict[str, int]]:
    """Findings of a source by shape: {shape: {"violations": n, "warnings": n}}; findings, not records."""
    prefix = string(names.record(source, ""))
    text = f"""SELECT ?shape ?sev (COUNT(DISTINCT ?v) AS ?n) {{ GRAPH <{names.quarantine}> {{
        ?v <{SH}sourceShape> ?shape ; <{SH}resultSeverity> ?sev ; <{GT}record> ?g .
        FILTER(STRSTARTS(STR(?g), {prefix})) }} }} GROUP BY ?shape ?sev"""
    out: dict[str, dict[str, int]] = {}
    for row in graph.query(text):
        counts = out.setdefault(row["shape"].value, {"violations": 0, "warnings": 0})
        counts["violations" if row["sev"].value == SH + "Violation" else "warnings"] += int(row["n"].value)
    return out


def commits(graph: Asked, names: Names, limit: int = 20) -> list[dict[str, Any]]:
    """The newest activities the journal still has: commit IRI, start, end, sources; newest first."""
    text = f"""SELECT ?c ?start ?end (GROUP_CONCAT(STR(?u); separator=" ") AS ?used) {{ GRAPH <{names.journal}> {{
        ?c a <{PROV}Activity> ; <{PROV}startedAtTime> ?start ; <{PROV}endedAtTime> ?end .
        OPTIONAL {{ ?c <{PROV}used> ?u }} }} }} GROUP BY ?c ?start ?end ORDER BY DESC(?end) LIMIT {limit}"""
    return [
        {"commit": row["c"].value, "started": row["start"].value, "ended": row["end"].value,
         "sources": sorted(row["used"].value.split())}
        for row in graph.query(text)
    ]  # fmt: skip


def _findings(
    graph: Asked, names: Names, kind: str, source: str | None, limit: int, how: str = ""
) -> list[dict[str, Any]]:
    mine = f"FILTER(STRSTARTS(STR(?g), {string(names.record(source, ''))}))" if source is not None else ""
    only = f"?v <{GT}refused> ?r ." if kind == "refused" else f"FILTER NOT EXISTS {{ ?v <{GT}refused> ?any }}"
    place = f"OPTIONAL {{ ?r <{GT}locator> ?at }}" if kind == "refused" else ""
    text = f"""SELECT ?v ?g ?sev ?msg ?how ?focus ?path ?field ?value ?constraint ?shape ?at ?stands {{
        GRAPH <{names.quarantine}> {{
            ?v <{GT}record> ?g ; <{SH}resultSeverity> ?sev ; <{SH}resultMessage> ?msg ; <{GT}reported> ?how .
            {mine} {only} {f"FILTER(STR(?how) = {string(how)})" if how else ""}
            OPTIONAL {{ ?v <{SH}focusNode> ?focus }} OPTIONAL {{ ?v <{SH}resultPath> ?path }}
            OPTIONAL {{ ?v <{GT}field> ?field }} OPTIONAL {{ ?v <{SH}value> ?value }}
            OPTIONAL {{ ?v <{SH}sourceConstraintComponent> ?constraint }}
            OPTIONAL {{ ?v <{SH}sourceShape> ?shape }} {place} }}
        OPTIONAL {{ GRAPH <{names.journal}> {{ ?g <{GT}locator> ?stands }} }} }} ORDER BY ?g ?msg ?at"""
    out: dict[tuple[str, str], dict[str, Any]] = {}
    for row in graph.query(text):
        key = (row["v"].value, row["g"].value)
        at = row["at"] if kind == "refused" else row["stands"]
        if key in out:
            if at is not None and at.value not in out[key]["locator"].split(", "):
                out[key]["locator"] += f", {at.value}"
            continue
        if len(out) >= limit:
            break
        found = names.parse(row["g"].value)
        out[key] = {
            "source": found[0] if found else "", "key": found[1] if found else "", "record": row["g"].value,
            "focus": _value(row["focus"]), "path": _value(row["path"]) or _value(row["field"]),
            "value": str(row["value"]) if row["value"] is not None else "", "constraint": _value(row["constraint"]),
            "severity": row["sev"].value.removeprefix(SH), "message": row["msg"].value, "locator": _value(at),
            "shape": _value(row["shape"]), "reported": row["how"].value, "refused": kind == "refused",
            "held": kind == "refused" and row["stands"] is not None,
        }  # fmt: skip
    return list(out.values())


def _value(term: Any) -> str:
    return "" if term is None else str(term.value)


def _number(graph: Asked, text: str) -> int:
    rows: Iterator[Any] = graph.query(text)
    return int(next(iter(rows))["n"].value)
