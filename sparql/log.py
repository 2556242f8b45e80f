"""The change log is the history, as RDF Patch text: an entry that is whole and synced has happened, any other has not.

One entry in a segment file reads

    H entry "id bytes crc32" .          the rest of the entry is that long and has that checksum
    H id 42 .
    H prev 41 .
    H time "2026-01-02T03:04:05.678Z" .
    H report "[...]" .                  JSON
    TX .
    D <s> <p> <o> <g> .
    A <s> <p> <o> .
    TC .

A blank node has its label everywhere: `_:a` in the log is `_:a` in the store and in every replica of it.

A segment is named after the first commit that may be in it. Ids only grow, and none is used twice in a state folder.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from io import FileIO
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from pyoxigraph import NamedNode, Quad, RdfFormat, Store
from pyoxigraph import parse as parse_rdf

from ontology.facts import GT, RDF
from sparql import durable
from sparql.names import GRAPHS

FOLDER = "log"
HEAD = "head"
SEGMENT_BYTES = 16 * 2**20
LARGE = 50_000  # statements: beyond that a change is loaded, not updated: 3 us a statement and not 12

_THERE = f"> <{RDF}type> <{GT}Graph>"
_HEAD = struct.Struct("=Q")
_ENTRY = re.compile(rb'H entry "(\d{20}) (\d{14}) ([0-9a-f]{8})" \.\n')
_ENTRY_BYTES = len(f'H entry "{0:020d} {0:014d} {0:08x}" .\n')
_NAME = re.compile(r"(\d{20})\.rdfp\Z")


class LogError(Exception):
    """The log does not say what it should: `str()` names the file and the place."""


class LogGap(LogError):
    """The log no longer starts where the reader stands: begin again from the newest checkpoint."""


@dataclass(frozen=True, slots=True)
class Change:
    """Statements to remove and to add, by graph (bare IRI, "" is the default graph); falsy when there are none.

    Removals come first: a statement in both is there afterwards.
    """

    removed: Mapping[str, frozenset[str]] = field(default_factory=dict)
    added: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return any(self.removed.values()) or any(self.added.values())

    def __len__(self) -> int:
        return sum(map(len, self.removed.values())) + sum(map(len, self.added.values()))

    def update_text(self) -> str:
        """The change as one SPARQL update; empty when there is nothing to do."""
        return ";\n".join(self._parts())

    def apply(self, store: Store, last: str = "") -> None:
        """The store has changed: in one atomic update, but for more than `LARGE` statements.

        A large change goes in many steps, the one of graph `last` at the end; doing it again after an interruption
        ends in the same. Raises SyntaxError or ValueError, with nothing done, for what is none; `check` a large one.
        So does one with blank nodes: SPARQL cannot name them, so each of their statements is a step of its own.
        """
        ground = self
        if any(map(labelled, self._statements())):
            ground, by_label = self._parted()
            for quad in by_label.quads(by_label.removed):
                store.remove(quad)
            store.extend(by_label.quads(by_label.added))
        ground._apply(store, last)
        self.found(store)

    def _apply(self, store: Store, last: str) -> None:
        if len(self) <= LARGE:
            text = self.update_text()
            if text:
                store.update(text)
            return
        for text in _chunks({name: found for name, found in self.removed.items() if name != last or not last}):
            store.update(text)
        rest = {name: found for name, found in self.added.items() if name != last or not last}
        store.bulk_load(input=_Quads(rest), format=RdfFormat.N_QUADS, lenient=True)  # type: ignore[arg-type]
        if last:
            Change({last: self.removed.get(last, frozenset())}, {last: self.added.get(last, frozenset())})._apply(
                store, ""
            )
        store.flush()  # RocksDB would need 9 us a statement to read its own log at the next start

    def found(self, store: Store) -> None:
        """A graph that this change emptied is there no more, and one that it says is there is, empty or not.

        May be done again at any time before the next change.
        """
        gone = [name for name, found in self.removed.items() if name and found and not self.added.get(name)]
        for name, found in self.removed.items():
            gone += _told(name, found)
        for name in gone:
            node = NamedNode(name)
            if next(store.quads_for_pattern(None, None, None, node), None) is None:
                store.remove_graph(node)
        for name, found in self.added.items():
            for told in _told(name, found):
                store.add_graph(NamedNode(told))

    def _statements(self) -> Iterator[str]:
        for graphs in (self.removed, self.added):
            for found in graphs.values():
                yield from found

    def _parted(self) -> tuple[Change, Change]:
        """(the ground statements, those with labels)."""
        sides = (self.removed, self.added)
        named = [{name: frozenset(filter(labelled, found)) for name, found in side.items()} for side in sides]
        ground = [
            {name: found - part[name] for name, found in side.items()} for side, part in zip(sides, named, strict=True)
        ]
        return Change(*ground), Change(*named)

    def quads(self, graphs: Mapping[str, frozenset[str]]) -> list[Quad]:
        """Statements by graph as quads, blank nodes with their labels. Raises SyntaxError, ValueError."""
        text = "".join(line for name, found in graphs.items() for line in _lines("", name, found))
        return list(parse_rdf(text, format=RdfFormat.N_QUADS))

    def check(self, *, blank: bool = False) -> None:
        """Raises ValueError for a blank node, unless `blank`, and for what `apply` could stop at half way."""
        some = False
        for statement in self._statements():
            if statement[:1] != "<" or labelled(statement):
                some = True
                if not blank:
                    raise ValueError(f"{statement!r} is not ground: give every node an IRI.")
        if len(self) > LARGE or some:  # for a smaller one the store says so itself
            for graphs in (self.removed, self.added):
                for graph, statements in graphs.items():
                    if graph:
                        NamedNode(graph)
                    try:
                        for _ in parse_rdf("".join([f"{one} .\n" for one in statements]), RdfFormat.N_TRIPLES):
                            pass
                    except SyntaxError as wrong:
                        raise ValueError(f"Not a statement: {wrong}") from wrong

    def _parts(self) -> Iterator[str]:
        for word, graphs in (("DELETE DATA", self.removed), ("INSERT DATA", self.added)):
            text = _data(graphs)
            if text:
                yield f"{word} {{\n{text}}}"


def labelled(statement: str) -> bool:
    """Whether the statement has a blank node or a triple in it, which an update's text cannot name."""
    if statement[0] == "_":
        return True
    start = statement.find(" ", statement.find(" ") + 1) + 1
    return statement.startswith(("_:", "<<"), start)


def _told(name: str, statements: Iterable[str]) -> list[str]:
    """The graphs that are said to be there, when `name` is the graph where that is said."""
    if not name.endswith(GRAPHS):
        return []
    return [line[1 : line.index(">")] for line in statements if line.endswith(_THERE)]


def find_graphs(store: Store) -> None:
    """Graphs that are said to be there are, after a load from quads, which cannot say so of an empty one."""
    for quad in list(store.quads_for_pattern(None, NamedNode(RDF + "type"), NamedNode(GT + "Graph"), None)):
        where, graph = quad.graph_name, quad.subject
        if isinstance(where, NamedNode) and where.value.endswith(GRAPHS) and isinstance(graph, NamedNode):
            store.add_graph(graph)


def _data(graphs: Mapping[str, Iterable[str]]) -> str:
    found = []
    for graph, statements in graphs.items():
        text = " .\n".join(statements)
        if text:
            found.append(f"GRAPH <{graph}> {{\n{text} .\n}}\n" if graph else f"{text} .\n")
    return "".join(found)


def _chunks(graphs: Mapping[str, frozenset[str]]) -> Iterator[str]:
    part: dict[str, list[str]] = {}
    room = LARGE
    for graph, statements in graphs.items():
        for statement in statements:
            part.setdefault(graph, []).append(statement)
            room -= 1
            if not room:
                yield f"DELETE DATA {{\n{_data(part)}}}"
                part, room = {}, LARGE
    if part:
        yield f"DELETE DATA {{\n{_data(part)}}}"


class _Quads:
    """Statements as a file of N-Quads, made while it is read."""

    def __init__(self, graphs: Mapping[str, frozenset[str]]) -> None:
        self._lines = (line for name, found in graphs.items() for line in _lines("", name, found))
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._rest) < size:
            more = "".join(islice(self._lines, 2000)).encode()
            if not more:
                break
            self._rest += more
        cut = len(self._rest) if size < 0 else size
        found, self._rest = self._rest[:cut], self._rest[cut:]
        return found


@dataclass(frozen=True, slots=True)
class Entry:
    """One commit: `change` took the graph from `previous` to `id`, and holds the store's own commit statement too."""

    id: int
    previous: int
    time: str
    report: Sequence[Mapping[str, Any]]
    change: Change

    def to_bytes(self) -> bytes:
        """The entry as it stands in a segment."""
        report = json.dumps(list(self.report), ensure_ascii=True, separators=(",", ":"), default=str)
        quoted = report.replace("\\", "\\\\").replace('"', '\\"')
        lines = [
            f'H id {self.id} .\nH prev {self.previous} .\nH time "{self.time}" .\nH report "{quoted}" .\nTX .\n',
            *(line for name, found in self.change.removed.items() for line in _lines("D ", name, sorted(found))),
            *(line for name, found in self.change.added.items() for line in _lines("A ", name, sorted(found))),
            "TC .\n",
        ]
        body = "".join(lines).encode()
        if body.count(b"\n") != 6 + len(self.change):
            raise ValueError("A statement holds a line break: spell it as N-Triples.")
        return f'H entry "{self.id:020d} {len(body):014d} {zlib.crc32(body):08x}" .\n'.encode() + body


def _lines(start: str, graph: str, statements: Iterable[str]) -> Iterator[str]:
    end = f" <{graph}> .\n" if graph else " .\n"
    for statement in statements:
        yield f"{start}{statement}{end}"


def parse(body: bytes) -> Entry:
    """The entry whose text after its first line is `body`. Raises LogError when it is not one."""
    lines = body.decode().split("\n")
    try:
        head = dict(line[2:-2].split(" ", 1) for line in lines[:4])
        if lines[4] != "TX ." or lines[-2:] != ["TC .", ""]:
            raise ValueError("it does not begin with TX and end with TC")
        report = json.loads(re.sub(r"\\(.)", r"\1", head["report"][1:-1]))
        removed: dict[str, set[str]] = {}
        added: dict[str, set[str]] = {}
        for line in lines[5:-2]:
            graph, statement = _graph(line[2:-2])
            into = added if line[0] == "A" else removed
            into.setdefault(graph, set()).add(statement)
        change = Change(
            {graph: frozenset(found) for graph, found in removed.items()},
            {graph: frozenset(found) for graph, found in added.items()},
        )
        return Entry(int(head["id"]), int(head["prev"]), head["time"][1:-1], report, change)
    except (ValueError, KeyError, IndexError) as wrong:
        raise LogError(f"{lines[0]!r} starts no entry of a change log ({wrong}).") from wrong


def _graph(text: str) -> tuple[str, str]:
    # No IRI holds a blank or a quote, so a last word in <> without a quote is the graph, or an IRI object.
    cut = text.rfind(" <")
    last = text[cut + 1 :]
    if not last.endswith(">") or '"' in last or last.endswith(")>>"):
        return "", text
    if text.count(" ", 0, cut) == 1:  # `<s> <p>`: the last word is the object
        return "", text
    return last[1:-1], text[:cut]


class Log:
    """The writer's side: appends to the newest segment. Only the process that holds the store's lock opens it."""

    def __init__(self, state: Path, *, after: int = 0, knows: int = 0) -> None:
        """Open the log that starts after commit `after`, without a torn tail.

        Raises LogError, with nothing touched, when it would then end before commit `knows`, the store's own.
        """
        self._fd = -1
        self.path = state / FOLDER
        self.path.mkdir(exist_ok=True)
        for first, path in segments(self.path)[:-1]:
            if first <= after:  # of the time before a bulk load, a restore or an erasure
                path.unlink()
        found = segments(self.path)
        if not found or found[-1][0] <= after:
            if after < knows:
                raise LogError(f"{self.path} ends at commit {after}, but the store stands at {knows}. {_LOST}")
            self.reset(after)
            return
        first, segment = found[-1]
        self.last, end = _last(segment, first)
        if self.last < knows:
            raise LogError(f"{segment} ends at commit {self.last} (byte {end}), but the store is at {knows}. {_LOST}")
        self._open(segment)
        if os.fstat(self._fd).st_size > end:
            os.ftruncate(self._fd, end)
            durable.sync_data(self._fd, segment)
        self.end = end

    @property
    def full(self) -> bool:
        """Whether it is time for the next segment."""
        return self.end >= SEGMENT_BYTES

    @property
    def first(self) -> int:
        """The commit after which the log starts."""
        return earliest(self.path.parent)

    def append(self, entry: Entry) -> int:
        """The entry is written, not synced; returns the position it starts at. A write that fails leaves nothing."""
        start = self.end
        data = memoryview(entry.to_bytes())
        try:
            while data:
                data = data[os.write(self._fd, data) :]
                durable.reach("log.writing")
        except OSError:
            os.ftruncate(self._fd, start)
            raise
        self.end = os.fstat(self._fd).st_size
        self.last = entry.id
        return start

    def sync(self) -> None:
        """Every appended entry is on disk: it has happened."""
        durable.sync_data(self._fd, self.segment)

    def take_back(self, position: int, last: int) -> None:
        """The newest segment ends at `position`, after commit `last`. For an entry the store refused."""
        os.ftruncate(self._fd, position)
        self.end, self.last = position, last
        self.sync()

    def drop(self, commit: int) -> None:
        """The log ends before `commit`, which the store refused."""
        found = segments(self.path)
        for first, path in reversed(found):
            if first > commit:
                path.unlink()
            else:
                self.close()
                self._open(path)
                self.take_back(_start_of(path, commit), commit - 1)
                return

    def rotate(self) -> None:
        """The next entry goes into a new segment."""
        os.close(self._fd)
        self._open(self.path / f"{self.last + 1:020d}.rdfp")

    def reset(self, after: int) -> None:
        """The log is empty, and starts after commit `after`."""
        self.close()
        for _, path in segments(self.path):
            path.unlink()
        self.last = after
        self._open(self.path / f"{after + 1:020d}.rdfp")

    def prune(self, before_id: int) -> None:
        """Segments that hold only entries up to and with `before_id` are gone; the newest segment stays."""
        found = segments(self.path)
        for (_, path), (following, _) in zip(found, found[1:], strict=False):
            if following <= before_id + 1:
                durable.reach("prune.segment")
                path.unlink()

    def entries(self, after: int, until: int | None = None) -> Iterator[Entry]:
        """The whole entries after commit `after`, oldest first."""
        return LogReader(self.path.parent, after, until=self.last if until is None else until).entries()

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _open(self, path: Path) -> None:
        self.segment = path
        new = not path.exists()
        self._fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self.end = os.fstat(self._fd).st_size
        if new:
            durable.sync_data(self._fd, path)
            durable.sync_folder(self.path)


_LOST = (
    "Part of the log is missing or damaged, the graph itself may be whole. Restore a backup with `graphtide restore`, "
    "or move the state folder away and load again."
)


class LogReader:
    """Follows the log from commit `after`: `entries()` may be called again for what came since."""

    def __init__(self, path: Path, after: int, *, until: int | None = None) -> None:
        """`path` is the state folder or the log in it. Without `until`, only what the writer published is read."""
        self.state = path.parent if path.name == FOLDER else path
        self.after, self._until = after, until
        self._file: FileIO | None = None
        self._first = 0

    def entries(self) -> Iterator[Entry]:
        """The durable entries after the last one yielded, oldest first.

        Raises LogGap when the next one is not in the log (any more), LogError when it is damaged.
        """
        until = read_head(self.state) if self._until is None else self._until
        while self.after < until:
            entry = self._next()
            if entry.id <= self.after:
                continue
            if entry.previous != self.after:
                raise LogGap(
                    f"{self.state / FOLDER} goes from commit {entry.previous} to {entry.id}, not from {self.after}."
                )
            self.after = entry.id
            yield entry

    def next_bytes(self) -> int:
        """How long the next entry is, which is not read; 0 where none follows. Raises LogGap."""
        if self._file is None:
            self._seek()
        while True:
            assert self._file is not None
            start = self._file.tell()
            head = _ENTRY.match(self._file.read(_ENTRY_BYTES))
            self._file.seek(start)
            if head is not None:
                return int(head.group(2))
            if not self._following():
                return 0

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _next(self) -> Entry:
        if self._file is None:
            self._seek()
        while True:
            assert self._file is not None
            start = self._file.tell()
            found = _read(self._file)
            if found is not None:
                return parse(found[1])
            self._file.seek(start)
            if not self._following():
                raise LogGap(
                    f"{self.state / FOLDER} has no commit after {self.after}. Begin from the newest checkpoint."
                )

    def _seek(self) -> None:
        """Open the segment that may hold the next entry, at the first entry that is not behind us."""
        found = [(first, path) for first, path in segments(self.state / FOLDER) if first <= self.after + 1]
        if not found:
            raise LogGap(f"{self.state / FOLDER} starts after commit {self.after}. Begin from the newest checkpoint.")
        self._enter(*found[-1])
        assert self._file is not None
        while True:
            start = self._file.tell()
            head = _ENTRY.match(self._file.read(_ENTRY_BYTES))
            if head is None or int(head.group(1)) > self.after:
                self._file.seek(start)
                return
            self._file.seek(int(head.group(2)), os.SEEK_CUR)

    def _following(self) -> bool:
        later = [(first, path) for first, path in segments(self.state / FOLDER) if first > self._first]
        if not later or later[0][0] > self.after + 1:
            return False
        self._enter(*later[0])
        return True

    def _enter(self, first: int, path: Path) -> None:
        self.close()
        try:
            # Unbuffered: what lies behind the published head may still be taken back (test_store_log).
            self._file = FileIO(path)
        except FileNotFoundError as wrong:
            raise LogGap(f"{path} is gone. Begin from the newest checkpoint.") from wrong
        self._first = first


def segments(path: Path) -> list[tuple[int, Path]]:
    """The segments of a log, as (first commit that may be in it, file), oldest first."""
    try:
        names = sorted(os.listdir(path))
    except FileNotFoundError:
        return []
    return [(int(match.group(1)), path / name) for name in names if (match := _NAME.match(name))]


def _read(file: BinaryIO | FileIO) -> tuple[int, bytes] | None:
    """(id, body) of the entry that starts here; None when no whole one does."""
    head = _ENTRY.match(file.read(_ENTRY_BYTES))
    if head is None:
        return None
    body = file.read(int(head.group(2)))
    if len(body) != int(head.group(2)) or zlib.crc32(body) != int(head.group(3), 16):
        return None
    return int(head.group(1)), body


def _last(segment: Path, first: int) -> tuple[int, int]:
    """(the last whole entry's id, or the one before `first`; where it ends)."""
    last, end = first - 1, 0
    with open(segment, "rb") as file:
        while (found := _read(file)) is not None:
            last, end = found[0], file.tell()
    return last, end


def _start_of(segment: Path, commit: int) -> int:
    with open(segment, "rb") as file:
        while True:
            start = file.tell()
            found = _read(file)
            if found is None or found[0] >= commit:
                return start


def earliest(state: Path) -> int:
    """The commit after which the log starts: a reader from there on misses nothing that is kept."""
    found = segments(state / FOLDER)
    return found[0][0] - 1 if found else 0


def last_logged(state: Path) -> int:
    """The last commit that is whole in the log, published or not; 0 where there is no log."""
    found = segments(state / FOLDER)
    return _last(found[-1][1], found[-1][0])[0] if found else 0


class Head:
    """The writer's side of the published head: eight bytes in a file that readers open, read and close."""

    def __init__(self, state: Path) -> None:
        self._fd = os.open(state / HEAD, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._fd, _HEAD.size)
        self._map = mmap.mmap(self._fd, _HEAD.size)
        # One store of eight bytes. struct.pack_into writes zeros first and then a byte at a time: 3 % of the readers
        # of a busy writer saw an earlier commit, or none (test_the_published_head_is_never_seen_half_written).
        self._value = ctypes.c_uint64.from_buffer(self._map)

    def publish(self, commit: int) -> None:
        """Readers see `commit` from now on: it must be durable."""
        self._value.value = commit

    def close(self) -> None:
        del self._value  # it holds the map open
        self._map.close()
        os.close(self._fd)


def read_head(state: Path) -> int:
    """The last durable commit; 0 where nothing was ever committed. Costs about 5 us."""
    try:
        fd = os.open(state / HEAD, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return 0
    try:
        data = os.pread(fd, _HEAD.size, 0)
    finally:
        os.close(fd)
    return int(_HEAD.unpack(data)[0]) if len(data) == _HEAD.size else 0
