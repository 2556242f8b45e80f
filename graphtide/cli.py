"""The command `graphtide`: each subcommand is one call of the engine and one way to show its answer."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from . import __version__

if TYPE_CHECKING:
    from .engine import Engine, RemoteEngine

OK, NO, USAGE, HELD, BUSY, STORE, BUG, INTERRUPTED = 0, 1, 2, 3, 4, 5, 70, 130
EXIT_CODES = (
    (OK, "Done. Refused rows are reported, and are not a failure."),
    (NO, "The answer is no: `verify` found a difference, `validate` a violation, `ask` no answer, `eval` too little."),
    (USAGE, "The command, the settings or the query cannot be used as written."),
    (HELD, "A source failed or was held; its last good facts stay, and every other source was synced."),
    (BUSY, "Another process holds the store, or the query workers are busy. Try again."),
    (STORE, "The store cannot be used: written by a newer Graphtide, of another base, disk full, damaged."),
    (BUG, "Something unexpected. `GRAPHTIDE_DEBUG=1` shows where."),
    (INTERRUPTED, "Interrupted."),
)
# By name, so that the command starts without importing the rooms they live in.
_CODES = {
    "SettingsError": USAGE,
    "EngineError": USAGE,
    "LoadError": USAGE,
    "SpecError": USAGE,
    "RuleError": USAGE,
    "RuleCycle": USAGE,
    "DraftError": USAGE,
    "QueryError": USAGE,
    "NotAcceptable": USAGE,
    "QueryTimeout": NO,
    "QueryTooLarge": NO,
    "PoolBusy": BUSY,
    "StoreBusy": BUSY,
    "WriterGone": BUSY,
    "StoreError": STORE,
    "LogError": STORE,
    "RoomShadowed": STORE,
    "ServerError": USAGE,
    "PortTaken": USAGE,
    "SourceError": HELD,
    "Unknown": USAGE,
    "ValidateError": USAGE,
    "TokenError": USAGE,
    "EvaluationError": USAGE,
}


PORT = click.IntRange(0, 65535)


class _Exit(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


def main() -> None:
    """Run the command of this process and exit with its code."""
    cli(prog_name="graphtide")


def command(
    name: str, *, dir_option: bool = True, json_option: bool = True, group: click.Group | None = None, **settings: Any
) -> Callable[[Any], click.Command]:
    """A subcommand with `--dir` and `--json`, whose errors are one message and an exit code."""

    def wrap(body: Callable[..., None]) -> click.Command:
        @functools.wraps(body)
        def run(**given: Any) -> None:
            try:
                body(**given)
            except _Exit as done:
                sys.exit(done.code)
            except (click.ClickException, click.exceptions.Exit, BrokenPipeError):
                raise
            except (KeyboardInterrupt, click.Abort):
                click.echo("Interrupted.", err=True)
                sys.exit(INTERRUPTED)
            except Exception as wrong:  # the one catch-all of this process
                if os.environ.get("GRAPHTIDE_DEBUG"):
                    raise
                sys.exit(_tell(wrong, json=bool(given.get("json"))))

        made: Any = run
        if json_option:
            made = click.option("--json", is_flag=True, help="Answer with one JSON document.")(made)
        if dir_option:
            made = click.option("--dir", default=".", metavar="DIR", help="The folder of the data; default here.")(made)
        return (group or cli).command(name, **settings)(made)

    return wrap


def _tell(wrong: Exception, *, json: bool) -> int:
    code = next((_CODES[kind.__name__] for kind in type(wrong).__mro__ if kind.__name__ in _CODES), BUG)
    name = type(wrong).__name__
    message = str(wrong) or name
    if type(wrong).__name__ == "WriterRefused":
        name, message = str(getattr(wrong, "code", name)), str(getattr(wrong, "message", message))
        code = _CODES.get(name, USAGE)
    if code == BUG and isinstance(wrong, OSError) and wrong.filename:
        code, message = STORE, f"{wrong.filename}: {wrong.strerror}."
    elif code == BUG:
        message = f"{name}: {message}\nThis was not expected: set GRAPHTIDE_DEBUG=1 to see where it came from."
    from . import show

    if json:
        show.document({"error": {"code": name, "exit": code, "message": message}})
    show.aside(message)
    return code


def _engine(dir: str) -> Engine | RemoteEngine:
    from .engine import connect

    return connect(dir)


def _version(context: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"graphtide {__version__}")
        context.exit()


class _InOrder(click.Group):
    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_version, help="Show the version.")
def cli() -> None:
    """A knowledge graph that keeps up with the things it describes.

    Works on the folder you are in, or on --dir. Settings are in its graphtide.toml; without one, the files are
    discovered and used as they are.
    """


@command("init", short_help="Draft graphtide.toml, a vocabulary and shapes from the data.")
@click.option("--force", is_flag=True, help="Write over files that are there.")
def init(dir: str, json: bool, force: bool) -> None:
    """Draft graphtide.toml, a vocabulary and shapes from the data, for you to edit."""
    from . import show
    from .draft import draft

    made = draft(dir, force=force)
    if json:
        show.document({"written": made.written, "notes": made.notes})
        return
    for name in made.written:
        show.line(f"wrote {name}")
    for note in made.notes:
        show.line(note)
    show.line("Read them, change what is wrong, then: graphtide up")


@command(
    "up", short_help="Keep the graph in step and serve it, with the Dagster UI.", dir_option=False, json_option=False
)
@click.argument("dir", default=".")
@click.option("--port", type=PORT, default=None, help="The port of SPARQL and the query page (8000).")
@click.option("--no-dagster", is_flag=True, help="Without the Dagster UI.")
def up(dir: str, port: int | None, no_dagster: bool) -> None:
    """Keep the graph in step and serve it, with the Dagster UI, until Ctrl-C."""
    from .up import up as run

    raise _Exit(run(dir, port=port, dagster=not no_dagster))


@command("sync", short_help="Bring the graph in step with its sources, once.")
@click.argument("source", nargs=-1)
@click.option("--allow-deletes", is_flag=True, help="Let a read retract more than the fuse allows.")
def sync(source: tuple[str, ...], allow_deletes: bool, dir: str, json: bool) -> None:
    """Bring the graph in step with its sources, or with those named, and report."""
    from . import show

    engine = _engine(dir)
    try:
        notes = list(engine.notes)
        with show.progress(shown=not json) as emit:
            reports = [
                report.to_dict() for report in engine.sync(source or None, allow_deletes=allow_deletes, emit=emit)
            ]
        if engine.refused:
            notes.append(f"The settings as they are now are not in force: {engine.refused}")
    finally:
        engine.close()
    failed = [report for report in reports if report.get("message") or report.get("held_scopes")]
    if json:
        show.document({"ok": not failed and not engine.refused, "sources": reports, "notes": notes})
    else:
        for note in notes:
            show.aside(note)
        _sync_table(reports)
    if failed or engine.refused:
        raise _Exit(HELD)


def _sync_table(reports: list[dict[str, Any]]) -> None:
    from . import show

    numbers = ("read", "changed", "gone", "added", "removed", "rejected", "held")
    rows = [[r["source"], *(r.get(name) for name in numbers), _seconds(r.get("seconds"))] for r in reports]
    show.table(("source", *numbers, "time"), rows, numbers=(*numbers, "time"))
    for report in reports:
        held = (report.get("message"), *(report.get("held_scopes") or {}).values())
        for message in dict.fromkeys(filter(None, held)):
            show.aside(f"{report['source']}: held: {message}")
        for note in report.get("notes") or ():
            show.aside(f"{report['source']}: {note}")
        for found in report.get("violations") or ():
            show.aside(_found(found, str(report["source"])))


_OUTCOME = {"Violation": "refused", "Warning": "warning", "Info": "info"}


def _found(found: dict[str, Any], source: str) -> str:
    """`people.csv:9: refused: An e-mail address has an @.`"""
    where = str(found.get("locator") or source)
    message = str(found.get("message")).removeprefix(f"{where}: ")
    outcome = "reported" if found.get("reported") == "wide" else _OUTCOME.get(str(found.get("severity")), "reported")
    return f"{where}: {outcome}: {message}"


def _seconds(value: Any) -> str:
    return "-" if value is None else f"{float(value):.2f} s"


@command("serve", short_help="Keep the graph in step and serve SPARQL, without Dagster.", json_option=False)
@click.option("--port", type=PORT, default=None, help="The port (8000).")
def serve(dir: str, port: int | None) -> None:
    """Keep the graph in step and serve SPARQL over HTTP until Ctrl-C, without Dagster."""
    from .up import up as run

    raise _Exit(run(dir, port=port, dagster=False))


@command("query", short_help="Ask SPARQL of the graph.", json_option=False)
@click.argument("text", required=False)
@click.option("-f", "--file", "file", metavar="FILE", help="Read the query from a file; - is standard input.")
@click.option("--format", "format", type=click.Choice(["table", "json", "csv", "turtle"]), default=None)
@click.option("--json", is_flag=True, help="The same as --format json.")
def query(text: str | None, file: str | None, format: str | None, json: bool, dir: str) -> None:
    """Ask SPARQL of the graph: a table of rows, or Turtle for CONSTRUCT and DESCRIBE."""
    from .ask import ask

    if (text is None) == (file is None):
        raise click.UsageError("Write the query as TEXT, or name its file with -f.")
    if file is not None:
        try:
            text = sys.stdin.read() if file == "-" else Path(file).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as wrong:
            raise click.UsageError(f"{file} cannot be read: {wrong}.") from wrong
    ask(dir, text or "", "json" if json else format)


@command("ask", short_help="Answer a question in plain words, with the records that say so.")
@click.argument("question")
@click.option("--no-model", is_flag=True, help="Ask no model, even where one is configured.")
def ask(question: str, no_model: bool, dir: str, json: bool) -> None:
    """Answer QUESTION: the rows, the records that say so, or why the graph does not hold that."""
    from . import questions

    if not questions.ask(dir, question, json=json, model=not no_model):
        raise _Exit(NO)


@command("eval", short_help="Score the answers to a set of questions.")
@click.argument("set", metavar="SET", type=click.Path(dir_okay=False))
@click.option("--out", metavar="FILE", default=None, help="Write the run to a file, to compare another with.")
@click.option("--against", metavar="FILE", default=None, help="An earlier run: a question it had right must be right.")
@click.option("--least", metavar="NAME=NUMBER", multiple=True, help="A figure that must be reached, such as f1=0.45.")
@click.option("--language", default="en", help="The language of the questions, where a set has several (en).")
@click.option("--no-model", is_flag=True, help="Ask no model, even where one is configured.")
def evaluate(
    set: str, out: str | None, against: str | None, least: tuple[str, ...], language: str, no_model: bool,
    dir: str, json: bool,
) -> None:  # fmt: skip
    """Ask every question of SET (TEXT2SPARQL, QALD or our own form) and score the answers."""
    from . import questions
    from .evaluate import gates

    if not questions.evaluate(
        dir, set, out=out, against=against, least=gates(least), language=language, model=not no_model, json=json
    ):
        raise _Exit(NO)


@command("validate", short_help="Check files against vocabulary and shapes; change nothing.")
@click.argument("file", nargs=-1)
def validate(file: tuple[str, ...], dir: str, json: bool) -> None:
    """Check FILEs, or all sources, against vocabulary and shapes, and change nothing."""
    from . import show
    from .pipeline import PREFIXES
    from .settings import load
    from .validate import validate as check

    found = check(dir, file)
    if json:
        show.document(found)
    else:
        counts = ", ".join(show.count(found[f"{one}s"], one) for one in ("violation", "warning"))
        show.line(f"{show.count(found['records'], 'record')} read, {counts}.")
        prefixes = {**PREFIXES, **load(dir).prefixes}
        rows = [
            [
                f["severity"], f["locator"], show.prefixed(f["path"], prefixes), show.value(f["value"], prefixes),
                f["message"].removeprefix(f"{f['locator']}: "),
            ]
            for f in found["findings"]
        ]  # fmt: skip
        if rows:
            show.table(("severity", "where", "property", "value", "message"), rows)
        for problem in found["problems"]:
            show.aside(problem)
    if found["problems"]:
        raise _Exit(HELD)
    if found["violations"]:
        raise _Exit(NO)


@command("status", short_help="Show each source: last seen, records, held, refused.")
def status(dir: str, json: bool) -> None:
    """Show each source: when it was last seen, its records, what is held or refused, when it is read next."""
    from . import show
    from .engine import status as told

    found = told(dir)
    if json:
        show.document(found)
        return
    writer = found["writer"]
    show.line(f"{found['dir']}  base {found['base']}")
    since = f" of {found['commit_time']}" if found["commit_time"] else ""
    who = f"writer process {writer['pid']}" if writer else "no writer runs"
    show.line(f"commit {found['commit']}{since}, {who}, {show.bytes_(found['free_bytes'])} of disk free")
    columns = ("source", "state", "mode", "records", "held", "rejected", "last seen", "lag", "next poll")
    rows = [
        [
            s["name"], s["state"], s["mode"], s["records"], s["held"], s["rejected"], show.clock(s["last_seen"]),
            show.ago(s["lag_seconds"]), show.clock(s["next_poll"]),
        ]
        for s in found["sources"]
    ]  # fmt: skip
    show.table(columns, rows, numbers=("records", "held", "rejected"))
    for s in found["sources"]:
        if s["message"]:
            show.line(f"{s['name']}: {s['message']}")
        if s["why"]:
            show.line(f"{s['name']}: polled, since {s['why']}")
        for check in s["checks"]:
            counts = [show.count(check[f"{one}s"], one) for one in ("violation", "warning") if check[f"{one}s"]]
            show.line(f"{s['name']}: {check['label']}: {', '.join(counts)}")
    for one in found["reported"]:
        show.line(_found(one, one["source"]))
    for note in found["notes"]:
        show.line(note)


@command("changes", short_help="List commits, and how much each added and removed.")
@click.option(
    "--after", type=click.IntRange(min=0), default=None, help="Only commits after this one; default the last --limit."
)
@click.option("--limit", type=click.IntRange(min=1), default=20, help="At most so many commits (20).")
def changes(after: int | None, limit: int, dir: str, json: bool) -> None:
    """List commits: when, and how much each source added and removed."""
    from . import show

    engine = _engine(dir)
    try:
        found = engine.changes(after, limit)
    finally:
        engine.close()
    if json:
        show.document({"changes": found})
        return
    rows = [[c["commit"], c["time"], ", ".join(c["sources"]) or "-", c["added"], c["removed"]] for c in found]
    show.table(("commit", "time", "sources", "added", "removed"), rows, numbers=("commit", "added", "removed"))


@command("verify", short_help="Build the graph aside from its sources and compare.")
@click.option("--repair", is_flag=True, help="Make the graph what a fresh build says; held facts stay.")
def verify(repair: bool, dir: str, json: bool) -> None:
    """Build the graph aside from its sources and compare it with the store."""
    from . import show

    engine = _engine(dir)
    try:
        found = engine.verify(repair=repair).to_dict()
    finally:
        engine.close()
    if json:
        show.document(found)
    else:
        for row in _verified(found):
            show.line(row)
    if not found["clean"] and not found["repaired"]:
        raise _Exit(NO)


@command("forget", short_help="Remove the facts of a source the settings no longer name.")
@click.argument("source")
def forget(source: str, dir: str, json: bool) -> None:
    """Remove the facts of a SOURCE that the settings no longer name."""
    _one(dir, json, lambda engine: engine.forget(source), f"The facts of {source!r} are removed")


@command("rename", short_help="Move the facts of a source to a new name.")
@click.argument("old")
@click.argument("new")
def rename(old: str, new: str, dir: str, json: bool) -> None:
    """Move the facts of source OLD to the name NEW, without reading it again."""
    _one(dir, json, lambda engine: engine.rename(old, new), f"{old!r} is now {new!r}")


@command("export", short_help="Write the graph out as TriG, N-Quads or GraphML.")
@click.option("--format", "format", type=click.Choice(["trig", "nquads", "graphml"]), default="trig")
@click.option("-o", "--output", metavar="FILE", default=None, help="Write to a file instead of standard output.")
def export(format: str, output: str | None, dir: str, json: bool) -> None:
    """Write the graph out: every quad as TriG or N-Quads, or the default graph as GraphML."""
    from . import show
    from .export import to_stdout

    if json and output is None:
        raise click.UsageError("--json needs -o FILE: without it, standard output is the export itself.")
    if output is None:
        to_stdout(dir, format)
        return
    engine = _engine(dir)
    try:
        path = engine.export(format, Path(output).absolute())
    finally:
        engine.close()
    if json:
        show.document({"path": str(path), "format": format, "bytes": path.stat().st_size})
    else:
        show.line(f"wrote {path} ({show.bytes_(path.stat().st_size)})")


@command("erase", short_help="Take a record or an IRI out of everything, for good.")
@click.argument("what", metavar="RECORD|IRI")
@click.option("--yes", is_flag=True, help="Do not ask.")
def erase(what: str, yes: bool, dir: str, json: bool) -> None:
    """Take a record (SOURCE/KEY) or an IRI out of the store, its history, log, quarantine and caches, for good."""
    if not yes and not json and sys.stdin.isatty():
        click.confirm(f"Erase {what} from the graph and all of its history?", abort=True)
    _one(dir, json, lambda engine: engine.erase(what), f"{what} is erased, here and in the history")


@command("backup", short_help="Copy the whole store to a new folder.")
@click.argument("dest")
def backup(dest: str, dir: str, json: bool) -> None:
    """Copy the whole store, consistent, to the new folder DEST, also while it is written to."""
    from . import show

    engine = _engine(dir)
    try:
        path = engine.backup(Path(dest).absolute())
    finally:
        engine.close()
    if json:
        show.document({"path": str(path)})
    else:
        show.line(f"wrote {path}")


@command("restore", short_help="Put the store of a backup in place.")
@click.argument("src")
@click.option("--force", is_flag=True, help="Replace the store that is there.")
def restore(src: str, force: bool, dir: str, json: bool) -> None:
    """Put the store of a backup SRC in place; no writer may run."""
    from . import show
    from .engine import restore as put

    found = put(dir, Path(src).absolute(), force=force)
    if json:
        show.document(found)
    else:
        show.line(f"restored commit {found['commit']} from {src}")


@cli.group("token", cls=_InOrder, short_help="Make, list and revoke the tokens that open the HTTP endpoint.")
def token() -> None:
    """Make, list and revoke the tokens that open the HTTP endpoint. What changes is in force at once."""


@command("add", group=token, short_help="Make a token; its secret is shown once.")
@click.argument("name")
@click.option("--read", is_flag=True, help="It may ask queries, where the server is not open to all.")
@click.option(
    "--write", multiple=True, metavar="GRAPH", help="It may write to this graph; 'default' is its own record."
)
@click.option("--write-all", is_flag=True, help="It may write to every graph that is not a source's.")
@click.option("--admin", is_flag=True, help="It may do everything, also what /writer and /api change.")
def token_add(
    name: str, read: bool, write: tuple[str, ...], write_all: bool, admin: bool, dir: str, json: bool
) -> None:
    """Make the token NAME. Its secret is written to standard output, once; only a digest of it is kept."""
    from sparql.tokens import ALL, DEFAULT

    from . import show

    graphs = [DEFAULT if graph == "default" else graph for graph in write] + [ALL] * write_all
    secret = _tokens(dir).add(name, read=read, write=graphs, admin=admin)
    if json:
        show.document({"name": name, "secret": secret, "read": read, "write": graphs, "admin": admin})
        return
    show.line(secret)
    show.aside(f"This is the secret of {name!r}, shown once. Send it as `Authorization: Bearer SECRET`.")


@command("list", group=token, short_help="Show who may do what.")
def token_list(dir: str, json: bool) -> None:
    """Show each token and what it may do; the secrets are not kept."""
    from . import show

    found = _tokens(dir).list()
    if json:
        show.document({"tokens": [one.to_dict() for one in found]})
        return
    rows = [
        [
            one.name, "yes" if one.reads else "no",
            "every graph" if one.admin or "*" in one.write else " ".join(graph or "default" for graph in one.write),
            "yes" if one.admin else "no", one.created,
        ]
        for one in found
    ]  # fmt: skip
    show.table(("token", "read", "write", "admin", "made"), rows)


@command("revoke", group=token, short_help="End a token at once.")
@click.argument("name")
def token_revoke(name: str, dir: str, json: bool) -> None:
    """End the token NAME at once. What it wrote stays until `graphtide forget token/NAME`."""
    from . import show

    _tokens(dir).revoke(name)
    if json:
        show.document({"revoked": name})
    else:
        show.line(f"{name!r} opens nothing any more. What it wrote stays until: graphtide forget token/{name}")


def _tokens(dir: str) -> Any:
    from sparql.tokens import Tokens

    from .settings import load, own

    state = load(dir).state
    own(state)
    return Tokens(state)


@command("writer", dir_option=False, json_option=False, hidden=True)
@click.argument("dir", default=".")
def writer(dir: str) -> None:
    """Run the writer process of DIR."""
    from .up import die_with_supervisor
    from .writer import main as run

    die_with_supervisor()
    raise _Exit(run(dir))


@command("server", dir_option=False, json_option=False, hidden=True)
@click.argument("dir", default=".")
@click.option("--port", type=int, default=None)
@click.option("--dagster-url", default=None)
def server(dir: str, port: int | None, dagster_url: str | None) -> None:
    """Run the server process of DIR."""
    from .serving import main as run
    from .up import die_with_supervisor

    die_with_supervisor()
    raise _Exit(run(dir, port=port, dagster_url=dagster_url))


def _one(dir: str, json: bool, do: Callable[[Any], Any], said: str) -> None:
    from . import show

    engine = _engine(dir)
    try:
        report = do(engine)
    finally:
        engine.close()
    found = report if isinstance(report, dict) else report.to_dict()
    if json:
        show.document(found)
        return
    counts = ", ".join(f"{found[name]} {name}" for name in ("gone", "added", "removed") if found.get(name))
    show.line(f"{said}{f' ({counts})' if counts else ''}.")
    for note in found.get("notes") or ():
        show.aside(note)


def _verified(found: dict[str, Any]) -> list[str]:
    held = f", {found['held']} of them held as they are" if found["held"] else ""
    rows = [f"{found['records']} records were mapped again{held}."]
    rows += [f"{scope} changed since it was synced." for scope in found["behind"]]
    rows += found["notes"]
    for one in found["differences"]:
        rows.append(f"{one['kind']} {one['graph'] or 'graph'}: {one['missing']} missing, {one['extra']} too many")
        rows += [f"  {line}" for line in one["sample"]]
    if found["clean"]:
        return [*rows, "The graph is exactly what they say."]
    mended = "They are mended." if found["repaired"] else "Mend them with: graphtide verify --repair"
    return [*rows, f"{len(found['differences'])} graphs differ from what they should say. {mended}"]


def reference() -> str:
    """docs/commands.md: every command with its own help, and the exit codes."""
    parts = [
        "# Commands",
        "",
        "Every command works on the folder you are in, or on `--dir DIR`. On a terminal it draws tables and progress",
        "bars; elsewhere its output is plain text without colour. `--json` answers with one JSON document. An error is",
        'one message on standard error (with `--json` also `{"error": ...}` on standard output).',
        "",
        "While a writer runs (`graphtide serve` or `graphtide up`), commands ask it; otherwise they take the lock of",
        "the store themselves, waiting at most `limits.lock_seconds`.",
        "",
        "This page is written by `python -m graphtide.reference`.",
        "",
        "| exit code | meaning |",
        "|---|---|",
        *(f"| {code} | {meaning} |" for code, meaning in EXIT_CODES),
    ]
    top = click.Context(cli, info_name="graphtide", **cli.context_settings)
    for name, item in cli.commands.items():
        if item.hidden:
            continue
        context = click.Context(item, info_name=name, parent=top, max_content_width=100, terminal_width=100)
        parts += ["", f"## {name}", "", "```", item.get_help(context), "```"]
        for inner in item.commands.values() if isinstance(item, click.Group) else ():
            about = click.Context(
                inner, info_name=inner.name, parent=context, max_content_width=100, terminal_width=100
            )
            parts += ["", "```", inner.get_help(about), "```"]
    return "\n".join(parts) + "\n"
