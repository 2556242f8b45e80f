"""Every choice is one key in `graphtide.toml`, and a wrong one is refused with its line and what to write."""

from __future__ import annotations

import difflib
import errno
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .keys import ABSOLUTE, DEFAULT_BASE, LIMITS, MODEL, ONTOLOGY, READ, RULES, SERVER, SOURCE, TOP, Key, Wrong, choice
from .toml_lines import Where, key_lines

FILE = "graphtide.toml"
STATE = ".graphtide"
RESERVED = ("ontology", "rule", "token")


class SettingsError(ValueError):
    """The settings cannot be used: `str()` names file, line, key, value and what to write instead."""

    def __init__(self, path: Path | str, line: int | None, message: str) -> None:
        self.path, self.line, self.message = str(path), line, message
        super().__init__(f"{path}:{line}: {message}" if line else f"{path}: {message}")


@dataclass(frozen=True)
class Limits:
    """What Graphtide may use before it stops, waits or asks. Seconds, bytes, shares and counts."""

    settle_ms: int = 200
    max_file_bytes: int = 256 * 2**20
    max_document_bytes: int = 256 * 2**20
    max_yaml_bytes: int = 16 * 2**20
    max_line_bytes: int = 16 * 2**20
    max_record_bytes: int = 16 * 2**20
    max_depth: int = 100
    max_expanded_bytes: int = 2**30
    max_expansion: int = 1000
    max_nodes: int = 2_000_000
    max_cells: int = 50_000_000
    max_columns: int = 16_384
    max_statements: int = 10_000_000
    max_blank_steps: int = 2_000_000
    poll_seconds: float = 5.0
    lock_seconds: float = 30.0
    checkpoint_seconds: float = 30.0
    min_free_bytes: int = 256 * 2**20
    history_days: float = 30.0
    history_bytes: int = 2 * 2**30
    keep_newest: int = 8
    fuse_share: float = 0.2
    fuse_count: int = 100
    holds_confidence: float = 0.5
    query_seconds: float = 30.0
    query_memory_bytes: int = 2**30
    memory_graph_bytes: int = 2**30
    max_rows: int = 0
    max_answer_bytes: int = 0
    workers: int = 2
    spares: int = 1
    pinned_workers: int = 2
    queue: int = 64
    per_client: int = 32
    epoch_seconds: float = 5.0
    service_seconds: float = 10.0
    service_bytes: int = 16 * 2**20
    service_rows: int = 10_000
    service_calls: int = 20
    update_seconds: float = 30.0
    update_statements: int = 500_000
    max_update_bytes: int = 16 * 2**20
    max_write_bytes: int = 64 * 2**20
    max_query_bytes: int = 2**20
    cache_bytes: int = 64 * 2**20
    cache_entry_bytes: int = 256 * 2**10
    compress_from: int = 2**10
    buffer_bytes: int = 16 * 2**20
    load_seconds: float = 60.0
    load_bytes: int = 256 * 2**20
    max_header_bytes: int = 64 * 2**10
    header_seconds: float = 10.0
    body_seconds: float = 120.0
    idle_seconds: float = 15.0
    max_connections: int = 1000
    max_client_connections: int = 250
    ask_seconds: float = 20.0
    ask_rows: int = 1000
    ask_cites: int = 20
    ask_tokens: int = 1500
    drain_seconds: float = 5.0
    drain_notice: float = 0.0


@dataclass(frozen=True)
class Server:
    """Where the HTTP server and the Dagster UI listen."""

    host: str = "127.0.0.1"
    port: int = 8000
    dagster_port: int = 3000
    queries: str | None = None
    api_python: bool = False
    hosts: tuple[str, ...] = ()
    cors_origins: tuple[str, ...] = ()
    root_path: str | None = None
    trusted_proxies: tuple[str, ...] = ()
    service_allow: tuple[str, ...] = ()
    load_allow: tuple[str, ...] = ()
    context_allow: tuple[str, ...] = ()
    imports_allow: tuple[str, ...] = ()
    allow_private: tuple[str, ...] = ()
    log: str = "text"
    access_log: bool = False
    otel_endpoint: str | None = None
    backups: str | None = None


@dataclass(frozen=True)
class ModelTable:
    """The `[model]` table as written; None and () where it is silent and the default is the model's own."""

    name: str | None = None
    url: str | None = None
    mode: str = "auto"
    seconds: float = 20.0
    tokens: int = 1024
    temperature: float = 0.0
    seed: int = 7
    repairs: int = 2
    input_price: float | None = None
    output_price: float | None = None
    send: tuple[str, ...] = ("schema", "values", "examples", "entities")


@dataclass(frozen=True)
class SourceSettings:
    """One `[sources.NAME]` table. `kind` is "files" or "python"; `mapping` is its `map` table as written."""

    name: str
    kind: str
    path: str | None = None
    paths: tuple[str, ...] = ()
    source: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    format: str | None = None
    encoding: str | None = None
    delimiter: str | None = None
    sheet: str | None = None
    record_path: str | None = None
    key: tuple[str, ...] = ()
    every: float | None = None
    python: str | None = None
    mapping: Any = None


@dataclass(frozen=True)
class Settings:
    """Everything `graphtide.toml` says about the folder `dir`; `path` is None when there is no such file."""

    dir: Path
    path: Path | None = None
    base: str = DEFAULT_BASE
    vocabulary: str = "open"
    merge: bool = True
    prefixes: Mapping[str, str] = field(default_factory=dict)
    vocabulary_files: tuple[str, ...] = ()
    shape_files: tuple[str, ...] = ()
    rule_files: tuple[str, ...] = ()
    limits: Limits = Limits()
    server: Server = Server()
    model: ModelTable = ModelTable()
    sources: tuple[SourceSettings, ...] = ()
    lines: Mapping[Where, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def state(self) -> Path:
        """The folder that holds store, checkpoints, log and Dagster home."""
        return self.dir / STATE

    def line(self, *where: str | int) -> int | None:
        """The line of a key, or of the nearest table around it."""
        return _line(self.lines, where)

    def error(self, message: str, *where: str | int) -> SettingsError:
        """An error that points at the line of the key `where`."""
        return SettingsError(FILE, self.line(*where), message)


TABLES = ("prefixes", "ontology", "rules", "limits", "server", "model", "sources")

_SECRET = re.compile(
    r"(?:^|[_-])(?:token|password|passwd|secret|api[_-]?key|apikey|credentials?|private[_-]?key)$", re.IGNORECASE
)
_SECRET_ENV = {"token": "GRAPHTIDE_TOKEN", "openai_api_key": "OPENAI_API_KEY", "github_token": "GITHUB_TOKEN"}
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*\Z")


def state_of(dir: Path | str) -> Path:
    """Where the state of a folder is, whatever its settings say."""
    return Path(dir).resolve() / STATE


def own(state: Path) -> None:
    """The state folder is there and can be written to. Raises OSError naming it."""
    state.mkdir(parents=True, exist_ok=True)
    if not os.access(state, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "cannot be written to, and Graphtide keeps its state there", str(state))


def load(dir: Path | str = ".") -> Settings:
    """The settings of the folder `dir`, with defaults where `graphtide.toml` is silent or absent.

    Raises SettingsError naming file, line, key, value and what to write.
    """
    root = Path(dir).resolve()
    path = root / FILE
    if not root.is_dir():
        raise SettingsError(dir, None, "there is no such folder. Name the folder that holds your data with --dir.")
    if not path.exists():
        return Settings(root)
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as wrong:
        raise SettingsError(FILE, None, f"cannot be read: {wrong.strerror}.") from wrong
    except UnicodeDecodeError as wrong:
        line = wrong.object[: wrong.start].count(b"\n") + 1
        raise SettingsError(FILE, line, f"is not UTF-8 (byte {wrong.start}). Save the file as UTF-8.") from wrong
    return parse(text, root)


def parse(text: str, root: Path) -> Settings:
    """The settings written in `text`, for the folder `root`. Raises SettingsError."""
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError as wrong:
        found = re.search(r"\(at line (\d+), column \d+\)", str(wrong))
        line = int(found.group(1)) if found else max(1, len(text.splitlines()))
        reason = re.sub(r"\s*\(at .*\)\Z", "", str(wrong))
        shown = (text.splitlines() or [""])[min(line, len(text.splitlines()) or 1) - 1].strip()
        raise SettingsError(FILE, line, f"{shown!r} is not TOML: {reason}. Write key = value.") from wrong
    return _Reader(key_lines(text)).settings(tree, root)


class _Reader:
    """Turns the parsed tree into Settings; knows the line of every key."""

    def __init__(self, lines: dict[Where, int]) -> None:
        self.lines = lines

    def settings(self, tree: dict[str, Any], root: Path) -> Settings:
        top = self.table(tree, (), TOP, extra=TABLES)
        ontology = self.table(self.sub(tree, "ontology"), ("ontology",), ONTOLOGY)
        limits = self.table(self.sub(tree, "limits"), ("limits",), LIMITS)
        server = self.table(self.sub(tree, "server"), ("server",), SERVER)
        rules = self.table(self.sub(tree, "rules"), ("rules",), RULES)
        model = self.table(self.sub(tree, "model"), ("model",), MODEL)
        base = top.get("base", DEFAULT_BASE)
        if not base.endswith(("/", "#")):
            raise self.wrong(("base",), base, "must end in '/' or '#'", f'"{base}/"')
        return Settings(
            dir=root,
            path=root / FILE,
            base=base,
            vocabulary=top.get("vocabulary", "open"),
            merge=top.get("merge", True),
            prefixes=self.prefixes(self.sub(tree, "prefixes")),
            vocabulary_files=ontology.get("vocabulary", ()),
            shape_files=ontology.get("shapes", ()),
            rule_files=rules.get("files", ()),
            limits=Limits(**limits),
            server=Server(**server),
            model=ModelTable(**model),
            sources=tuple(self.source(name, value) for name, value in self.sub(tree, "sources").items()),
            lines=self.lines,
        )

    def sub(self, tree: dict[str, Any], name: str) -> dict[str, Any]:
        value = tree.get(name, {})
        if not isinstance(value, dict):
            raise self.wrong((name,), value, "is not a table", f"a [{name}] table")
        return value

    def prefixes(self, table: dict[str, Any]) -> dict[str, str]:
        for name, value in table.items():
            if not isinstance(value, str) or not ABSOLUTE.match(value):
                raise self.wrong(("prefixes", name), value, "is not an absolute IRI", '"https://example.org/ns#"')
        return dict(table)

    def source(self, name: str, table: Any) -> SourceSettings:
        at: Where = ("sources", name)
        if not isinstance(table, dict):
            raise self.wrong(at, table, "is not a table", f'[sources.{name}] with path = "{name}.csv"')
        if not _NAME.match(name):
            raise SettingsError(
                FILE, _line(self.lines, at), f"{name!r} cannot name a source. Use letters, digits, '_', '-' and '.'."
            )
        if name in RESERVED:
            raise SettingsError(
                FILE, _line(self.lines, at), f"the source name {name!r} is taken by Graphtide. Choose another."
            )
        values = self.table(table, at, SOURCE)
        given = [key for key in ("path", "paths", "source") if key in values]
        if len(given) != 1:
            found = "has none of path, paths and source" if not given else f"has both {given[0]!r} and {given[1]!r}"
            raise SettingsError(
                FILE, _line(self.lines, at), f'source {name!r} {found}. Write one, such as path = "{name}.csv".'
            )
        mapping = values.pop("map", None)
        if isinstance(mapping, dict) and set(mapping) == {"python"} and "python" not in values:
            values["python"], mapping = mapping["python"], None
        if mapping is not None and "python" in values:
            raise SettingsError(
                FILE, _line(self.lines, (*at, "python")), f"source {name!r} has both 'python' and 'map'. Keep one."
            )
        if mapping is not None and not isinstance(mapping, (dict, list)):
            raise self.wrong((*at, "map"), mapping, "is not a table", f"a [sources.{name}.map] table")
        for key in ("python", "source"):
            if key in values and values[key].count(":") != 1 and (key == "python" or values[key].endswith(".py")):
                raise self.wrong(
                    (*at, key), values[key], "does not name a file and a name in it", '"folder/file.py:name"'
                )
        if "source" not in values and "options" in values:
            raise self.wrong(
                (*at, "options"), values["options"], "is only for a source of your own", 'source = "file.py:Class"'
            )
        kind = "python" if "source" in values else "files"
        return SourceSettings(name=name, kind=kind, mapping=mapping, **values)

    def table(
        self, table: dict[str, Any], at: Where, keys: tuple[Key, ...], extra: tuple[str, ...] = ()
    ) -> dict[str, Any]:
        known = {key.name: key for key in keys}
        values: dict[str, Any] = {}
        for name, value in table.items():
            where = (*at, name)
            if name in extra:
                continue
            if name not in known:
                raise self.unknown(where, value, [*known, *extra])
            if known[name].kind == "table":
                self.no_secrets(value, where)
            try:
                values[name] = READ.get(known[name].kind, choice(known[name].kind))(value)
            except Wrong as wrong:
                raise self.wrong(where, value, f"is not {wrong.wanted}", wrong.write) from None
        return values

    def no_secrets(self, value: Any, at: Where) -> None:
        for name, inner in value.items() if isinstance(value, dict) else ():
            if _SECRET.search(name):
                raise self.secret((*at, name))
            self.no_secrets(inner, (*at, name))

    def secret(self, where: Where) -> SettingsError:
        key = str(where[-1])
        env = _SECRET_ENV.get(key.lower(), key.upper().replace("-", "_"))
        if where[0] == "sources" and key.lower() not in ("github_token", "openai_api_key"):
            env = re.sub(r"\W", "_", f"{where[1]}_{key}").upper()
        return SettingsError(
            FILE,
            _line(self.lines, where),
            f"{_dotted(where)!r} is a secret, and secrets never go in {FILE}."
            f" Take the line out and set the environment variable {env}.",
        )

    def unknown(self, where: Where, value: Any, known: list[str]) -> SettingsError:
        name = str(where[-1])
        if _SECRET.search(name):
            return self.secret(where)
        near = difflib.get_close_matches(name, known, 1, 0.6)
        table = f"[{_dotted(where[:-1])}]" if len(where) > 1 else "the top of the file"
        hint = f"Did you mean {near[0]!r}?" if near else f"Write one of: {', '.join(known)}."
        return SettingsError(
            FILE, _line(self.lines, where), f"{name!r} (= {_short(value)}) is not a key of {table}. {hint}"
        )

    def wrong(self, where: Where, value: Any, problem: str, write: str) -> SettingsError:
        return SettingsError(
            FILE, _line(self.lines, where), f"{_dotted(where)!r} is {_short(value)}, which {problem}. Write {write}."
        )


def _dotted(where: Where) -> str:
    return ".".join(str(part) for part in where)


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _line(lines: Mapping[Where, int], where: Where) -> int | None:
    for end in range(len(where), 0, -1):
        if where[:end] in lines:
            return lines[where[:end]]
    return None
