"""What a person wants to see of one sync fits in a dozen values, a table, and a link to the query page."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from dagster import AssetCheckSeverity, MetadataValue, TableColumn, TableRecord, TableSchema

from sparql.names import Names

COUNTS = ("read", "changed", "gone", "added", "removed", "rejected", "held")
SHOWN = 50  # rows of a table of violations: more is what `graphtide status` and the query page are for
WIDEST = 200  # characters of one cell

VIOLATIONS = TableSchema(
    columns=[
        TableColumn("where", "string", description="File and line, or URL, of the record"),
        TableColumn("field", "string", description="The field, or the property the shape looks at"),
        TableColumn("value", "string", description="The value that was found"),
        TableColumn("message", "string", description="What is wrong with it"),
        TableColumn("severity", "string"),
    ]
)


def query_url(page: str, query: str) -> str:
    """The query page with `query` filled in; what an address may hold stays readable, and lets a browser break it."""
    return f"{page.rstrip('/')}/#{quote(query, safe='/:?*(),;.-')}"


def of_source(names: Names, source: str) -> str:
    """The query that lists what a source says, record by record."""
    return _said_under(names.record(source, ""))


def derived_by(names: Names, rule: str) -> str:
    """The query that lists what a rule derived."""
    return _said_under(names.derived(rule, ""))


def _said_under(graphs: str) -> str:
    said = f"STRSTARTS(STR(?record), '{_text(graphs)}')"
    return f"SELECT ?s ?p ?o ?record {{ GRAPH ?record {{ ?s ?p ?o }} FILTER {said} }} LIMIT 100"


def refused_by(names: Names, source: str) -> str:
    """The query that lists what is in quarantine for a source."""
    held = f"{{ ?x ?about <{names.source(source)}> ; ?p ?o }}"
    return f"SELECT ?x ?p ?o {{ GRAPH <{names.quarantine}> {held} }} ORDER BY ?x ?p LIMIT 500"


def _text(value: str) -> str:
    return value.replace("\\", "\\\\").replace("'", "\\'")


def counts(report: Mapping[str, Any]) -> dict[str, MetadataValue]:
    """The counts of a report as numbers Dagster can plot, with the seconds it took and the commit it made."""
    shown: dict[str, MetadataValue] = {name: MetadataValue.int(int(report.get(name) or 0)) for name in COUNTS}
    if report.get("seconds") is not None:
        shown["seconds"] = MetadataValue.float(round(float(report["seconds"]), 3))
    if report.get("commit") is not None:
        shown["commit"] = MetadataValue.int(int(report["commit"]))
    for note in ("message", "notes"):
        if report.get(note):
            text = report[note] if isinstance(report[note], str) else "\n".join(str(line) for line in report[note])
            shown[note] = MetadataValue.text(text[:2000])
    return shown


def table(rows: Sequence[Mapping[str, Any]]) -> MetadataValue:
    """Any rows as a table whose columns are the fields of all of them, in the order they are met."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    return MetadataValue.table(
        [TableRecord({name: cell(row.get(name)) for name in columns}) for row in rows],
        TableSchema(columns=[TableColumn(name, "string") for name in columns]),
    )


def violations_table(violations: Iterable[Mapping[str, Any]]) -> MetadataValue:
    """Violations as people read them: where, which field, which value, why."""
    rows = [
        TableRecord(
            {
                "where": cell(row.get("locator") or row.get("record")),
                "field": cell(short(row.get("path") or "")),
                "value": cell(plain(row.get("value") or "")),
                "message": cell(row.get("message")),
                "severity": cell(short(row.get("severity") or "Violation")),
            }
        )
        for row in violations
    ]
    return MetadataValue.table(rows[:SHOWN], VIOLATIONS)


def short(iri: str) -> str:
    """The last word of an IRI; any other text as it is."""
    text = iri.strip("<>")
    return text.rstrip("/#").replace("#", "/").rsplit("/", 1)[-1] if "://" in text else text


def plain(value: str) -> str:
    """An N-Triples term as people read it: a literal's text, an IRI's last word; any other text as it is."""
    if value.startswith('"') and (end := value.rfind('"')) > 0:
        return value[1:end].replace('\\"', '"').replace("\\n", " ").replace("\\\\", "\\")
    return short(value) if value.startswith("<") and value.endswith(">") else value


def cell(value: Any) -> str:
    """One value as one line of bounded width."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= WIDEST else text[: WIDEST - 1] + "\u2026"


def severity(violations: int) -> AssetCheckSeverity:
    """Violations are errors; a check that only has warnings warns."""
    return AssetCheckSeverity.ERROR if violations else AssetCheckSeverity.WARN
