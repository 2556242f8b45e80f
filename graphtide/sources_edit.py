"""A source is added or removed by a client as by a person: in `graphtide.toml`, which is valid before and after."""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from sources.formats import may_be_secret
from sparql.sync.removing import Unknown

from .engine import Emit, Engine, EngineError
from .pipeline import Project
from .settings import FILE, STATE, SettingsError, SourceSettings, parse
from .toml_edit import CannotEdit, rendered, with_source, without_source

CODE = ("source", "python", "options")
SIGNS = "*?["


class EditRefused(ValueError):
    """The settings stay as they are: `str()` says why and what to do."""


class Changed(EditRefused):
    """The settings are not those the client has seen."""


class Fused(EditRefused):
    """More records would go than may go without being asked for."""


class CodeRefused(EditRefused):
    """The source would run code, or read what is not for clients."""


class UnknownSource(EditRefused):
    """There is no such source."""


class Taken(EditRefused):
    """There is a source of that name."""


def sources(engine: Engine) -> dict[str, Any]:
    """Every source as `status` has it, with what the settings say of it, and the tag of the settings."""
    by_name = {one.name: one for one in engine.settings.sources}
    rows = [{**row, **_said(by_name.get(row["name"]))} for row in engine.status()["sources"]]
    return {
        "sources": rows, "settings": tag(engine.settings.dir), "discovered": engine.project.discovered,
        "commit": engine.store.head, "commit_time": engine.store.head_time, "refused": engine.refused,
    }  # fmt: skip


def add(engine: Engine, ask: Mapping[str, Any]) -> dict[str, Any]:
    """`{name, table, if_match, dry_run}`: the source is in the settings and the settings are in force.

    Raises SettingsError and its kin with the settings' own words, EditRefused; then nothing has changed.
    """
    name, table = str(ask.get("name", "")), ask.get("table")
    if not isinstance(table, Mapping):
        raise EditRefused("A source is a table: give at least a path.")
    with engine.lock:
        root = engine.settings.dir
        before = _content(root)
        _matches(before, ask.get("if_match"))
        if engine.project.discovered and len(engine.project.pipelines) > 1:
            raise EditRefused(
                f"There is no {FILE} here, and the files are taken as they are. Write one with `graphtide init` first: "
                "with only this source in it the others would be none."
            )
        if any(one.name == name for one in engine.settings.sources):
            raise Taken(f"There is a source {name!r} already. Remove it first, or choose another name.")
        _safe(root, name, table, code=engine.settings.server.api_python)
        text = with_source(_text(before), name, table)
        notes = _tried(root, text, name)
        answer = {"toml": rendered(name, table), "notes": notes, "name": name}
        if ask.get("dry_run"):
            return {**answer, "dry_run": True, "settings": tag(root)}
        return {**answer, **_changed(engine, before, text), "dry_run": False, "settings": tag(root)}


def remove(engine: Engine, ask: Mapping[str, Any], emit: Emit | None = None) -> dict[str, Any]:
    """`{name, force, forget, if_match, dry_run}`: the source is not in the settings, and with `forget` its facts are
    gone.

    Raises Fused for more than `fuse_count` records without `force`, UnknownSource, EditRefused.
    """
    name = str(ask.get("name", ""))
    with engine.lock:
        root = engine.settings.dir
        before = _content(root)
        _matches(before, ask.get("if_match"))
        row = next((one for one in engine.status()["sources"] if one["name"] == name), None)
        configured = any(one.name == name for one in engine.settings.sources)
        if row is None or (not configured and row["state"] != "orphaned"):
            if row is not None:
                what = "is built in" if row["kind"] == "built-in" else f"is a file here and not in {FILE}"
                raise EditRefused(f"{name!r} {what}, so it cannot be removed.")
            raise UnknownSource(f"There is no source {name!r}.")
        if not configured and not ask.get("forget"):
            raise EditRefused(f"{name!r} is not in {FILE} any more. With forget=true its facts go.")
        most, records = engine.settings.limits.fuse_count, int(row["records"])
        if records > most and not ask.get("force"):
            raise Fused(
                f"{name!r} has {records:,} records, and more than {most:,} (fuse_count) go only when told so. "
                "Say force=true."
            )
        answer: dict[str, Any] = {"name": name, "records": records, "forgotten": None}
        text = without_source(_text(before), name) if configured else _text(before)
        _tried(root, text, None)
        if ask.get("dry_run"):
            return {**answer, "dry_run": True, "settings": tag(root)}
        changes = _changed(engine, before, text) if configured else {"changed": [], "added": [], "orphaned": [name]}
        if ask.get("forget"):
            # A source that has never been read has said nothing.
            with suppress(Unknown):
                answer["forgotten"] = engine.forget(name).to_dict()
        return {**answer, **changes, "dry_run": False, "settings": tag(root)}


def tag(root: Path) -> str:
    """What changes whenever the settings file does."""
    return _tag(_content(root))


def _tag(content: bytes | None) -> str:
    return "none" if content is None else hashlib.sha256(content).hexdigest()[:32]


def _content(root: Path) -> bytes | None:
    try:
        return (root / FILE).read_bytes()
    except FileNotFoundError:
        return None


def _text(content: bytes | None) -> str:
    return "" if content is None else content.decode("utf-8-sig")


def _matches(content: bytes | None, wanted: Any) -> None:
    if wanted is not None and wanted != _tag(content):
        raise Changed(
            f"{FILE} is not what you have seen: its tag is {_tag(content)} by now. Look again, then ask again."
        )


def _said(own: SourceSettings | None) -> dict[str, Any]:
    """What the settings say of a source: where it reads, how it is mapped, what identifies a record."""
    if own is None:
        return {"configured": False, "paths": [], "mapping": "direct", "key": [], "format": None, "every": None}
    mapping = "python" if own.python else "map" if own.mapping is not None else "direct"
    return {
        "configured": True, "paths": [own.path] if own.path is not None else list(own.paths), "mapping": mapping,
        "key": list(own.key), "format": own.format, "every": own.every,
    }  # fmt: skip


def _safe(root: Path, name: str, table: Mapping[str, Any], *, code: bool) -> None:
    """Raises CodeRefused for what a client may not have read or run."""
    own = table.get("map")
    runs = [key for key in CODE if key in table]
    runs += ["map.python"] if isinstance(own, Mapping) and "python" in own else []
    if runs and not code:
        raise CodeRefused(
            f"sources.{name}.{runs[0]} runs code of this machine, and clients may not add that. Write it in {FILE}, or "
            "set api_python = true in [server]."
        )
    given = [table["path"]] if isinstance(table.get("path"), str) else []
    paths = table.get("paths")
    given += [one for one in paths if isinstance(one, str)] if isinstance(paths, list) else []
    for path in given:
        why = _leads_out(root, path)
        if why:
            key = "path" if "path" in table else "paths"
            raise CodeRefused(f"sources.{name}.{key} is {path!r}, which {why}. Name what lies in the project's folder.")


def _leads_out(root: Path, path: str) -> str:
    """Why a client may not name the path; empty when it may."""
    parts = path.replace("\\", "/").split("/")
    if path.startswith(("/", "~", "\\")) or Path(path).is_absolute() or ":" in parts[0]:
        return "is not relative to it"
    if "\x00" in path or any(not letter.isprintable() for letter in path):
        return "holds a character that is not printable"
    if ".." in parts:
        return "leads out of it"
    if parts[0] == STATE or parts == [FILE]:
        return "is Graphtide's own"
    if any(part.startswith(".") and part != "." for part in parts):
        return "is hidden"
    if any(may_be_secret(part) for part in parts):
        return "may hold secrets"
    literal: list[str] = []
    for part in parts:
        if any(sign in part for sign in SIGNS):
            break
        literal.append(part)
    real, home = os.path.realpath(root / "/".join(literal)), os.path.realpath(root)
    inside = real == home or real.startswith(home + os.sep)
    if not inside:
        return "is a link that leads out of it"
    hidden = [part for part in os.path.relpath(real, home).split(os.sep) if part.startswith(".") and part != "."]
    return "is a link to what is hidden" if hidden or may_be_secret(os.path.basename(real)) else ""


def _tried(root: Path, text: str, name: str | None) -> list[str]:
    """The whole project opens with these settings; what there is to note about the source. Raises what opening does."""
    settings = parse(text, root)
    project = Project.of(settings)
    try:
        one = project.pipeline(name) if name is not None else None
        missing = getattr(one.source, "missing", None) if one is not None else None
        if missing is None:
            return []
        with suppress(OSError, ValueError):
            return [f"{path!r} names no file now" for path in missing()]
        return []
    finally:
        project.close()


def _changed(engine: Engine, before: bytes | None, text: str) -> dict[str, Any]:
    """The file holds `text` and the engine has taken it up; else the file is what it was, and the reason is raised."""
    root = engine.settings.dir
    _write(root, before, text.encode())
    try:
        return engine.reload()
    except Exception:
        with suppress(OSError, EditRefused):
            _write(root, text.encode(), before)
        with suppress(Exception):  # what was in force still is; `refused` says no more than that
            engine.reload()
        raise


def _write(root: Path, before: bytes | None, after: bytes | None) -> None:
    """The file is `after`, whole, on disk. Raises Changed when it is not `before` any more, EditRefused."""
    path = Path(os.path.realpath(root / FILE))
    if after is None:
        if _content(root) == before:
            path.unlink(missing_ok=True)
        return
    try:
        fd, part = tempfile.mkstemp(prefix=f".{FILE}.", suffix=".part", dir=path.parent)
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(after)
                file.flush()
                os.fsync(file.fileno())
            mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o644
            os.chmod(part, mode)
            if _content(root) != before:
                raise Changed(f"{FILE} was changed by someone else meanwhile. Look again, then ask again.")
            os.replace(part, path)
        finally:
            with suppress(FileNotFoundError):
                os.unlink(part)
    except OSError as wrong:
        raise EditRefused(f"{FILE} cannot be written: {wrong.strerror}.") from wrong


__all__ = [
    "CannotEdit", "Changed", "CodeRefused", "EditRefused", "EngineError", "Fused", "SettingsError", "Taken",
    "UnknownSource", "add", "remove", "sources", "tag",
]  # fmt: skip
