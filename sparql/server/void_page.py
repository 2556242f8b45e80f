"""A person who comes to a graph first asks what is in it, how much, from where, and what to ask it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from sparql.server import html
from sparql.server.documents import RDF_FORMS
from sparql.server.examples import Example
from sparql.server.html import link, text
from sparql.server.resource_page import Writing
from sparql.server.void import Standing

MOST = 200
"""How many rows of each table are shown; the document in any other form has all."""


def page(found: Standing, examples: Sequence[Example], write: Writing) -> str:
    """The page of the data set."""
    numbers = found.counts
    facts = (
        ("statements", numbers.triples), ("subjects", numbers.subjects), ("classes", len(numbers.classes)),
        ("properties", len(numbers.properties)), ("named graphs", found.graph_count),
    )  # fmt: skip
    chips = "".join(f'<li><span class="tag">{n:,} {name}</span></li>' for name, n in facts)
    body = [
        f'<h1>This graph</h1>\n<p class="iri">{text(write.base)}</p>',
        f'<ul class="chips">{chips}</ul>',
        _table("Classes", ("Class", "Instances", "Statements"), [
            (_name(write, one), *counted)
            for one, counted in sorted(numbers.classes.items(), key=lambda row: (-row[1][0], row[0]))]),
        _table("Properties", ("Property", "Statements", "Subjects", "Values"), [
            (_name(write, one), *counted)
            for one, counted in sorted(numbers.properties.items(), key=lambda row: (-row[1][0], row[0]))]),
        _table("Last commit of each source", ("Source", "Commit", "Time"), [
            (write.node(source), write.node(activity), text(ended)) for source, activity, _, ended in found.syncs]),
        _table("Named graphs", ("Graph", "Statements"), [(write.node(one), n) for one, n in found.graphs],
               total=found.graph_count),
        _table("Examples", ("Query", "Last run", "Rows", "Took"), [_example(one) for one in examples]),
    ]  # fmt: skip
    forms = "".join(link(f"{write.path}/void?format={form.name}", form.title) for form in RDF_FORMS)
    when = f", made {text(found.time)}" if found.time else ""
    foot = f"<p>As data: {forms}</p><p>As of commit {found.commit}{when}.</p>"
    return html.page("This graph - Graphtide", "\n".join(filter(None, body)), path=write.path, foot=foot)


def _name(write: Writing, term: str) -> str:
    return write.node(term[1:-1]) if term.startswith("<") else text(term)


def _example(one: Example) -> tuple[str, ...]:
    if one.state is None:
        return text(one.title), "not yet", "&ndash;", "&ndash;"
    if one.broken:
        return (
            text(one.title),
            f"{text(one.state.ran)} <strong>broken</strong>: {text(one.state.error)}",
            "&ndash;",
            "&ndash;",
        )
    return text(one.title), text(one.state.ran), f"{one.state.rows or 0:,}", f"{one.state.ms} ms"


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[object]], *, total: int | None = None) -> str:
    """A table of markup and numbers; nothing when there are no rows."""
    found = list(rows)
    if not found:
        return ""
    anchor = title.split()[0].lower()
    total = len(found) if total is None else total
    shown = f"<caption>The first {MOST} of {total:,}.</caption>" if total > MOST else ""
    cell: Callable[[object], str] = lambda value: (  # noqa: E731
        f'<td class="num">{value:,}</td>' if isinstance(value, int) else f"<td>{value}</td>"
    )
    head = "".join(
        f'<th scope="col"{"" if n == 0 else _right(found[0][n])}>{text(one)}</th>' for n, one in enumerate(heads)
    )
    body = "".join("<tr>" + "".join(map(cell, row)) + "</tr>" for row in found[:MOST])
    return (
        f'<section><h2 id="{anchor}">{text(title)}</h2><table>{shown}<thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></section>"
    )


def _right(value: object) -> str:
    return ' class="num"' if isinstance(value, int) else ""
