"""What can be set: each key is one row here, with its reader, default and meaning; the reference is these rows."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

DEFAULT_BASE = "http://localhost:8000/"


class Key(NamedTuple):
    """One documented key: how it is read, its default as a person would write it, and what it means."""

    name: str
    kind: str
    default: str
    meaning: str


TOP = (
    Key(
        "base",
        "iri",
        f'"{DEFAULT_BASE}"',
        "The IRI that minted names start with. Ends in `/` or `#`. Fixed once the store exists.",
    ),
    Key(
        "vocabulary",
        "open|closed",
        '"open"',
        "`closed` refuses terms of a namespace that no loaded vocabulary owns; `open` lists them as Info.",
    ),
    Key(
        "merge",
        "bool",
        "true",
        "The default graph is the merge of record graphs. With `false` the store is plain: it is what is written to it,"
        " and sources only have their record graphs. Fixed once the store exists.",
    ),
)
ONTOLOGY = (
    Key("vocabulary", "strings", "[]", "Turtle files of your own terms, by path; globs are allowed."),
    Key("shapes", "strings", "[]", "SHACL shape files, by path; globs are allowed."),
)
RULES = (Key("files", "strings", "[]", "Rules: `.rq` CONSTRUCT files, or `file.py:name` for a Python rule."),)
LIMITS = (
    Key("settle_ms", "integer", "200", "A file is read when size and time have stood still this long."),
    Key("max_file_bytes", "size", '"256MiB"', "Discovery skips larger files, and a larger named file is refused."),
    Key("max_document_bytes", "size", '"256MiB"', "The same for formats read whole: JSON, RDF, Parquet, Excel."),
    Key("max_yaml_bytes", "size", '"16MiB"', "The same for YAML."),
    Key("max_line_bytes", "size", '"16MiB"', "The longest line of CSV, TSV or JSON Lines."),
    Key("max_record_bytes", "size", '"16MiB"', "The most text one record of an XML file may hold."),
    Key("max_depth", "count", "100", "How deep JSON, YAML and XML may nest."),
    Key("max_expanded_bytes", "size", '"1GiB"', "What an `.xlsx` archive may unpack to."),
    Key("max_expansion", "count", "1000", "How many times its own size an `.xlsx` archive may unpack to."),
    Key("max_nodes", "count", "2000000", "How many YAML nodes there may be once every alias is written out."),
    Key("max_cells", "count", "50000000", "Rows times columns of an Excel sheet or a Parquet file."),
    Key("max_columns", "count", "16384", "How wide a table may be."),
    Key("max_statements", "count", "10000000", "How many statements an RDF file may make."),
    Key("max_blank_steps", "count", "2000000", "The work spent on telling apart the blank nodes of one cycle."),
    Key("poll_seconds", "duration", "5", "How often a folder is looked at where file events cannot be had."),
    Key("lock_seconds", "duration", "30", "How long a command waits for another process that holds the store."),
    Key("checkpoint_seconds", "duration", "30", "How often the writer makes a checkpoint when there were commits."),
    Key("min_free_bytes", "size", '"256MiB"', "Below this much free disk, writes stop with a message and reads go on."),
    Key("history_days", "number", "30", "How many days of checkpoints and change log are kept."),
    Key("history_bytes", "size", '"2GiB"', "How much disk checkpoints and change log may use."),
    Key("keep_newest", "integer", "8", "How many of the newest checkpoints are always kept."),
    Key(
        "fuse_share",
        "share",
        "0.2",
        "A read that would retract more than this share of a source's records is held,"
        " when it is also more than `fuse_count`.",
    ),
    Key("fuse_count", "integer", "100", "See `fuse_share`."),
    Key("holds_confidence", "share", "0.5", "Facts known with less confidence stay out of the default graph."),
    Key("query_seconds", "duration", "30", "A query is stopped after this long."),
    Key("query_memory_bytes", "size", '"1GiB"', "The memory one query may use."),
    Key(
        "memory_graph_bytes",
        "size",
        '"1GiB"',
        "A graph that takes no more than this, and half of what is free, is held in memory by the server; 0 never.",
    ),
    Key("max_rows", "integer", "0", "An answer of more rows is refused, never cut; 0 for no limit."),
    Key("max_answer_bytes", "size", "0", "An answer of more bytes, before compression, is refused; 0 for no limit."),
    Key("workers", "count", "2", "Query worker processes."),
    Key("spares", "integer", "1", "Workers kept ready to take over from one that was stopped."),
    Key("pinned_workers", "count", "2", "Workers more, at most, that answer at earlier epochs."),
    Key("queue", "count", "64", "How many queries may wait for a worker."),
    Key("per_client", "integer", "32", "How many queries one client may run and have waiting; 0 for no limit."),
    Key("epoch_seconds", "duration", "5", "How long a query waits for a commit it asks for that is not there yet."),
    Key("service_seconds", "duration", "10", "How long all `SERVICE` calls of one query may take."),
    Key("service_bytes", "size", '"16MiB"', "How much the `SERVICE` calls of one query may fetch, unpacked."),
    Key("service_rows", "count", "10000", "How many solutions the `SERVICE` calls of one query may bring."),
    Key("service_calls", "count", "20", "How many requests the `SERVICE` calls of one query may make."),
    Key("update_seconds", "duration", "30", "How long one update may take, waiting and evaluation included."),
    Key("update_statements", "count", "500000", "How many statements one update or document may touch."),
    Key("max_update_bytes", "size", '"16MiB"', "How long the text of one update may be."),
    Key("max_write_bytes", "size", '"64MiB"', "How large a document or batch that is sent to be written may be."),
    Key("max_query_bytes", "size", '"1MiB"', "How long the text of one query may be."),
    Key("cache_bytes", "size", '"64MiB"', "How much memory the server may fill with answers that still hold."),
    Key("cache_entry_bytes", "size", '"256KiB"', "How long an answer may be to be kept."),
    Key("compress_from", "size", '"1KiB"', "From which length on an answer is compressed for a client that takes it."),
    Key("buffer_bytes", "size", '"16MiB"', "How long an answer to a client of HTTP/1.0 may be: it is sent once whole."),
    Key("load_seconds", "duration", "60", "How long one `LOAD` may take."),
    Key("load_bytes", "size", '"256MiB"', "How much one `LOAD` may fetch, unpacked."),
    Key("max_header_bytes", "size", '"64KiB"', "How long request line and headers may be."),
    Key("header_seconds", "duration", "10", "How long a client may take to send its headers."),
    Key(
        "body_seconds",
        "duration",
        "120",
        "How long a body may let us wait, or a client read nothing of its answer.",
    ),
    Key("idle_seconds", "duration", "15", "How long a connection may stay open between two requests."),
    Key("max_connections", "count", "1000", "How many connections may be open."),
    Key("max_client_connections", "count", "250", "How many of them one address may hold, but for a trusted proxy."),
    Key("ask_seconds", "duration", "20", "How long one question may take, a model and its repairs included."),
    Key("ask_rows", "count", "1000", "How many rows an answer to a question has at most; it says when there are more."),
    Key("ask_cites", "integer", "20", "How many rows of an answer are cited."),
    Key("ask_tokens", "count", "1500", "How many tokens of the graph's profile a model is told for one question."),
    Key("drain_seconds", "duration", "5", "How long running answers may go on when the server is asked to stop."),
    Key("drain_notice", "duration", "0", "How long `/ready` says 503 before the server takes no new connections."),
)
SERVER = (
    Key("host", "text", '"127.0.0.1"', "The address the server listens on."),
    Key("port", "port", "8000", "The port of SPARQL and the query page."),
    Key("dagster_port", "port", "3000", "The port of the Dagster UI."),
    Key("queries", "text", "", "A folder of `.rq` files to offer on the query page."),
    Key(
        "api_python",
        "bool",
        "false",
        "Whether sources added over HTTP may name Python code of this folder. Whoever adds one then runs code here.",
    ),
    Key("hosts", "strings", "[]", "More names the server is reached by; a request for any other name is refused."),
    Key(
        "cors_origins",
        "strings",
        "[]",
        'Origins whose pages may read (never write), such as `"https://app.example"`; `"*"` is all of them.',
    ),
    Key("root_path", "text", "", "The path a proxy serves us under, such as `/graph`."),
    Key(
        "trusted_proxies",
        "strings",
        "[]",
        "Addresses or networks of proxies whose `Forwarded` and `X-Forwarded-*` headers count. With any, reading needs"
        " a token.",
    ),
    Key(
        "service_allow",
        "strings",
        "[]",
        'What `SERVICE` may ask: origins or URL prefixes, such as `"https://query.wikidata.org/sparql"`.',
    ),
    Key("load_allow", "strings", "[]", "What `LOAD` may fetch: origins or URL prefixes."),
    Key("context_allow", "strings", "[]", "Which remote JSON-LD contexts written documents may have."),
    Key("imports_allow", "strings", "[]", "Which `owl:imports` of written and loaded documents are followed."),
    Key(
        "allow_private",
        "strings",
        "[]",
        "Hosts, addresses or networks that these four lists may reach although they are not public.",
    ),
    Key("log", "text|json", '"text"', "How the server logs."),
    Key("access_log", "bool", "false", "One line for each request: never the query, a literal or a token."),
    Key(
        "otel_endpoint",
        "text",
        "",
        "Where traces go, an OTLP/HTTP URL; needs `graphtide[otel]`. Nothing leaves without.",
    ),
    Key("backups", "text", "", "The folder that `POST /api/backup` writes to. Off without."),
)
MODEL = (
    Key("name", "text", "", "The model to ask, such as `gpt-5-mini`. No model is asked without one."),
    Key(
        "url",
        "text",
        '"https://api.openai.com/v1"',
        "Where it is: any server that speaks OpenAI's chat completions.",
    ),
    Key(
        "mode",
        "auto|schema|tools|json|text",
        '"auto"',
        "How a query is asked for; `auto` finds out what the server has.",
    ),
    Key("seconds", "duration", "20", "How long one request may take."),
    Key("tokens", "count", "1024", "How many tokens one reply may have."),
    Key("temperature", "number", "0", "How freely it writes."),
    Key("seed", "integer", "7", "The same seed, question and graph give the same request."),
    Key("repairs", "integer", "2", "How often it may mend a query that cannot be used."),
    Key("input_price", "number", "", "What a million tokens in cost, for the sums in answers."),
    Key("output_price", "number", "", "What a million tokens out cost."),
    Key(
        "send",
        "strings",
        '["schema", "values", "examples", "entities"]',
        "What it may be told besides the question: names of classes and properties, their commonest values, example"
        " queries, things the question may mean.",
    ),
)
SOURCE = (
    Key("path", "text", "", "One file or folder, relative to this file. The key of a record is its row key."),
    Key("paths", "strings", "", "Files or globs (`tables/*.csv`). The key of a record starts with the file's path."),
    Key("source", "text", "", "A source of your own, `connectors/pager.py:Pager`, or the name of a plug-in."),
    Key("options", "table", "{}", "Keyword arguments for a source of your own."),
    Key(
        "format",
        "text",
        "detected",
        "`csv`, `tsv`, `json`, `jsonl`, `yaml`, `xml`, `parquet`, `xlsx`, or an RDF format.",
    ),
    Key("encoding", "text", "detected", "The text encoding of the files."),
    Key("delimiter", "text", "detected", "The field delimiter of CSV files."),
    Key("sheet", "text", "first", "The sheet of an Excel file."),
    Key("record_path", "text", "detected", "Where the records lie in nested JSON, YAML or XML."),
    Key("key", "key", "row position", 'The column or columns that identify a record: `"id"` or `["team", "name"]`.'),
    Key("every", "duration", "", 'How often a source that has no events is read again, such as `"5m"`.'),
    Key("python", "text", "", "A mapping in Python, `mappings/people.py:person`."),
    Key("map", "any", "direct", "A mapping table, or several (`[[sources.NAME.map]]`): see docs/mapping.md."),
)

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?\Z")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]i?)?B?\Z", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}
ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]*\Z")


class Wrong(Exception):
    """A value of the wrong kind: what it is not, and what to write."""

    def __init__(self, wanted: str, write: str) -> None:
        self.wanted, self.write = wanted, write


def duration(value: Any) -> float:
    """Seconds from a number or text such as `5m`, `1.5h`, `200ms`. Raises ValueError."""
    found = _DURATION.match(value.strip()) if isinstance(value, str) else None
    if found:
        return float(found.group(1)) * _SECONDS[found.group(2)]
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    raise ValueError(f"{value!r} is not a duration")


def size(value: Any) -> int:
    """Bytes from a number or text such as `256MB` (10^6) or `256MiB` (2^20). Raises ValueError."""
    found = _SIZE.match(value.strip()) if isinstance(value, str) else None
    if found:
        unit = (found.group(2) or "").lower()
        step = 1024 if unit.endswith("i") else 1000
        return int(float(found.group(1)) * step ** " kmgt".index(unit[0] if unit else " "))
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(f"{value!r} is not a size")


def reference() -> str:
    """docs/settings.md: every key, its default and its meaning."""
    parts = [
        "# Settings",
        "",
        "`graphtide.toml` lies beside the data. Every key is optional; without the file, what is in the folder is",
        "discovered and used as it is. Secrets never go in this file: they come from the environment",
        "(`GRAPHTIDE_TOKEN`, `OPENAI_API_KEY`, `GITHUB_TOKEN`, or what a source of your own reads).",
        "",
        'A duration is a number of seconds or text such as `"200ms"`, `"30s"`, `"5m"`, `"1d"`. A size is a number',
        'of bytes or text such as `"256MB"` (millions) or `"256MiB"` (times 1,048,576).',
        "",
        "This page is written by `python -m graphtide.reference`.",
    ]
    sections = (
        ("At the top", "", TOP),
        (
            "`[prefixes]`",
            'One key a prefix, `shop = "https://webshop.example/ns#"`, for use in mappings and queries.',
            (),
        ),
        ("`[ontology]`", "", ONTOLOGY),
        ("`[rules]`", "", RULES),
        ("`[limits]`", "", LIMITS),
        ("`[server]`", "", SERVER),
        (
            "`[model]`",
            "Which model is asked where the planner has no sure reading of a question. `GRAPHTIDE_MODEL` and\n"
            "`OPENAI_BASE_URL` in the environment count before `name` and `url`; the key is `OPENAI_API_KEY`.",
            MODEL,
        ),
        (
            "`[sources.NAME]`",
            "One table a source, with exactly one of `path`, `paths` and `source`, and at most one of"
            " `python` and `map`.\nA name is letters, digits, `_`, `-` and `.`; `ontology` and `rule` are taken.",
            SOURCE,
        ),
    )
    for title, prose, keys in sections:
        parts += ["", f"## {title}", ""]
        if prose:
            parts += [prose, ""] if keys else [prose]
        if keys:
            parts += ["| key | default | meaning |", "|---|---|---|"]
            parts += [
                f"| `{key.name}` | {f'`{key.default}`' if key.default else '-'} | {key.meaning} |" for key in keys
            ]
    return "\n".join(parts) + "\n"


def _text(value: Any) -> str:
    if isinstance(value, str) and value:
        return value
    raise Wrong("text", 'text in quotes, "..."')


def _strings(value: Any) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) and item for item in value):
        return tuple(value)
    raise Wrong("a list of texts", '["first", "second"]')


def _key(value: Any) -> tuple[str, ...]:
    if isinstance(value, str) and value:
        return (value,)
    if isinstance(value, list) and value and all(isinstance(item, str) and item for item in value):
        return tuple(value)
    raise Wrong("a column or a list of columns", '"id" or ["team", "name"]')


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise Wrong("true or false", "true or false, without quotes")


def _integer(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise Wrong("a whole number of 0 or more", "a number such as 100, without quotes")


def _count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 1:
        return value
    raise Wrong("a whole number of 1 or more", "a number such as 2, without quotes")


def _port(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 65535:
        return value
    raise Wrong("a port", "a number from 0 (any free port) to 65535")


def _number(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0:
        return float(value)
    raise Wrong("a number of 0 or more", "a number such as 30, without quotes")


def _share(value: Any) -> float:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise Wrong("a share from 0 to 1", "a number such as 0.2")


def _duration(value: Any) -> float:
    try:
        return duration(value)
    except ValueError:
        raise Wrong("a duration", 'seconds such as 30, or "30s", "5m", "1h"') from None


def _size(value: Any) -> int:
    try:
        return size(value)
    except ValueError:
        raise Wrong("a size", 'bytes such as 1048576, or "256MB", "2GiB"') from None


def _iri(value: Any) -> str:
    if isinstance(value, str) and ABSOLUTE.match(value):
        return value
    raise Wrong("an absolute IRI", '"https://example.org/"')


def _table(value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return value
    raise Wrong("a table", "{ name = value }")


def choice(kind: str) -> Callable[[Any], Any]:
    choices = kind.split("|")

    def read(value: Any) -> Any:
        if value in choices:
            return value
        raise Wrong(f"one of {', '.join(choices)}", " or ".join(f'"{choice}"' for choice in choices))

    return read


READ: dict[str, Callable[[Any], Any]] = {
    "text": _text,
    "strings": _strings,
    "key": _key,
    "bool": _bool,
    "integer": _integer,
    "count": _count,
    "port": _port,
    "number": _number,
    "share": _share,
    "duration": _duration,
    "size": _size,
    "iri": _iri,
    "table": _table,
    "any": lambda value: value,
}
