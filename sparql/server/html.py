"""A page is plain HTML that works without a script; what others wrote is text in it, and never markup."""

from __future__ import annotations

import html
from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import Response

from sparql.server import documents

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
STYLE = """
:root { color-scheme: light dark; --ink: #1c2733; --soft: #5b6b7a; --line: #dde3e9; --paper: #fff; --wash: #f4f7f9;
  --link: #0b7285; --chip: #e0f1f4; --chip-ink: #085565; }
@media (prefers-color-scheme: dark) { :root { --ink: #e4eaf0; --soft: #9aa9b7; --line: #2e3a46; --paper: #12181f;
  --wash: #1a222b; --link: #4fc3d6; --chip: #123b44; --chip-ink: #a5e3ee; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; }
a { color: var(--link); text-decoration-thickness: 1px; text-underline-offset: 2px; }
a:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
.skip { position: absolute; left: -99rem; } .skip:focus { left: 1rem; top: .5rem; background: var(--paper); }
.bar { border-bottom: 1px solid var(--line); background: var(--wash); }
.bar > div, main, footer { max-width: 68rem; margin: 0 auto; padding: .7rem 1.25rem; }
.bar a { margin-right: 1.25rem; font-size: .9rem; }
.bar .home { font-weight: 650; text-decoration: none; color: var(--ink); }
main { padding-top: 1.75rem; }
h1 { margin: 0; font-size: 1.8rem; line-height: 1.2; overflow-wrap: anywhere; }
h2 { margin: 2.25rem 0 .6rem; font-size: 1.1rem; }
.iri { margin: .35rem 0 .9rem; color: var(--soft); font: .85rem/1.4 ui-monospace, "Cascadia Mono", Menlo, monospace;
  overflow-wrap: anywhere; }
.chips { display: flex; flex-wrap: wrap; gap: .4rem; margin: 0; padding: 0; list-style: none; }
.chips a { display: block; padding: .1rem .6rem; border-radius: 1rem; background: var(--chip); color: var(--chip-ink);
  text-decoration: none; font-size: .85rem; } .chips a:hover { text-decoration: underline; }
table { width: 100%; border-collapse: collapse; } caption { text-align: left; color: var(--soft); font-size: .85rem;
  padding-bottom: .4rem; }
th, td { padding: .5rem .75rem .5rem 0; border-top: 1px solid var(--line); text-align: left; vertical-align: top;
  overflow-wrap: anywhere; } tbody tr:last-child > * { border-bottom: 1px solid var(--line); }
thead th { color: var(--soft); font-weight: 500; font-size: .82rem; border-top: 0; }
tbody th { width: 15rem; font-weight: 500; } tbody th a { text-decoration: none; }
tbody th a:hover { text-decoration: underline; }
.values { margin: 0; padding: 0; list-style: none; } .values li + li { margin-top: .2rem; }
.note, .lang, .where { color: var(--soft); font-size: .8rem; } .lang { margin-left: .35rem; }
sup { line-height: 0; } sup a { text-decoration: none; padding: 0 .1rem; }
.num { text-align: right; font-variant-numeric: tabular-nums; }
.text { white-space: pre-line; } code { font: .85em ui-monospace, "Cascadia Mono", Menlo, monospace; }
.more { font-size: .85rem; } .tag { background: var(--chip); color: var(--chip-ink); border-radius: 1rem;
  padding: .05rem .5rem; font-size: .78rem; }
footer { margin-top: 2.5rem; border-top: 1px solid var(--line); color: var(--soft); font-size: .85rem; }
footer a { margin-right: .75rem; }
@media (max-width: 40rem) { tbody th { width: 40%; } h1 { font-size: 1.45rem; } .wide { display: none; } }
"""


def text(value: object) -> str:
    """`value` as text in a page, in an attribute too."""
    return html.escape(str(value), quote=True)


def link(href: str, shown: str, *, title: str = "") -> str:
    """A link; `shown` is text. Only to a path of ours or to the web: anything else is text without a link."""
    if not href.startswith(("/", "#", "?", "https://", "http://")) or href.startswith("//"):
        return text(shown)
    more = f' title="{text(title)}"' if title else ""
    return f'<a href="{text(href)}"{more}>{text(shown)}</a>'


def page(title: str, body: str, *, path: str, foot: str = "") -> str:
    """A whole document; `body` and `foot` are markup, `path` is where the server is mounted."""
    here, footer = text(path), f"<footer>{foot}</footer>" if foot else ""
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{text(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<a class="skip" href="#content">To the content</a>
<div class="bar"><div><a class="home" href="{here}/">Graphtide</a><a href="{here}/">Query</a>\
<a href="{here}/void?format=html">This graph</a><a href="{here}/ns?format=html">Vocabulary</a></div></div>
<main id="content">
{body}
</main>
{footer}
</body>
</html>
"""


def respond(request: Request, markup: str, headers: Mapping[str, str] | None = None) -> Response:
    """The page as sent, or 304 when the client has it."""
    return documents.sent(request, markup.encode("utf-8", "replace"), "text/html", {**HEADERS, **(headers or {})})
