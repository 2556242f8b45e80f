"""Updates are evaluated in a process of their own, which can be killed: the writer never waits for a pattern.

`python -m sparql.sync.evaluator FD STATE BASE FOLDER BYTES` serves one request at a time on the socket FD: a line of
JSON that says how many bytes of document follow it, answered by a line of JSON and the statements it announces.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sparql.names import Names
from sparql.sync.document import FORMATS
from sparql.sync.edit import Edit, Refused
from sparql.sync.evaluating import Evaluation, Fetch, Task, statements

MANY = 20_000  # applied statements that are cheaper to forget with their copy than to take back
GRACE = 1.0
IDLE = 60.0  # seconds without a request after which the process is let go
_SECRETS = ("GRAPHTIDE_TOKEN", "OPENAI_API_KEY", "GITHUB_TOKEN")


@dataclass(frozen=True)
class Found:
    """The net edit of an update, found out on the graph as commit `epoch` left it."""

    edit: Edit
    epoch: int


class Evaluator:
    """The writer's side: starts the process when it is needed, and ends it when it takes too long."""

    def __init__(self, state: Path, base: str, *, memory_bytes: int = 2**30) -> None:
        self.state, self.base, self.memory_bytes = state, base, memory_bytes
        self._process: subprocess.Popen[bytes] | None = None
        self._sock: socket.socket | None = None
        self._folder: Path | None = None
        self._lock = threading.Lock()
        self._used = 0.0

    def ask(self, request: Mapping[str, Any], document: bytes = b"", *, seconds: float) -> Found:
        """What the update comes to. Raises Refused: also when time or memory ran out, or the process died."""
        with self._lock:
            self._used = time.monotonic()
            try:
                return self._ask(request, document, time.monotonic() + seconds, seconds)
            except BaseException as wrong:
                if not isinstance(wrong, Refused) or wrong.code in ("update-timeout", "update-lost"):
                    self._end()
                raise

    def rest(self) -> None:
        """The process is let go if it was not used for a while."""
        if self._lock.acquire(blocking=False):
            try:
                if self._process is not None and time.monotonic() - self._used > IDLE:
                    self._end()
            finally:
                self._lock.release()

    def close(self) -> None:
        with self._lock:
            self._end()

    def _ask(self, request: Mapping[str, Any], document: bytes, ends: float, seconds: float) -> Found:
        if self._process is not None and self._process.poll() is not None:
            self._end()
        if self._sock is None:
            self._start()
        assert self._sock is not None
        head = json.dumps({**request, "bytes": len(document), "seconds": max(0.1, ends - time.monotonic())})
        try:
            self._timeout(ends)
            self._sock.sendall(head.encode("utf-8", "surrogatepass") + b"\n" + document)
            return self._answer(ends)
        except TimeoutError:
            raise _late(seconds) from None
        except (OSError, EOFError):
            status = self._end()
            if time.monotonic() >= ends - 0.05 or status == -signal.SIGALRM:
                raise _late(seconds) from None
            words = "The update needed more memory than query_memory_bytes, or its process was killed. "
            raise Refused("update-lost", words + "Nothing was done.", limit="query_memory_bytes") from None

    def _answer(self, ends: float) -> Found:
        line = self._line(ends)
        told = json.loads(line)
        if "error" in told:
            error = told["error"]
            raise Refused(error.pop("code"), error.pop("message"), **error)
        ok = told["ok"]
        edit = Edit(
            there=ok["there"], kept=ok["kept"], kept_count=ok["kept_count"], looked=ok["looked"], depends=ok["depends"]
        )
        for side, graph, size in ok["parts"]:
            text = self._exactly(size, ends).decode()
            getattr(edit, side)[graph] = set(text.split("\n")) if text else set()
        if ok["spent"]:
            self._end()
        return Found(edit, ok["epoch"])

    def _line(self, ends: float) -> bytes:
        assert self._sock is not None
        out = bytearray()
        while not out.endswith(b"\n"):
            self._timeout(ends)
            got = self._sock.recv(1 << 16, socket.MSG_PEEK)
            if not got:
                raise EOFError
            end = got.find(b"\n") + 1
            out += self._sock.recv(end or len(got))
        return bytes(out)

    def _exactly(self, size: int, ends: float) -> bytes:
        assert self._sock is not None
        out = bytearray()
        while len(out) < size:
            self._timeout(ends)
            got = self._sock.recv(min(1 << 20, size - len(out)))
            if not got:
                raise EOFError
            out += got
        return bytes(out)

    def _timeout(self, ends: float) -> None:
        assert self._sock is not None
        left = ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(left)

    def _start(self) -> None:
        folder = self.state / "stage" / f"update-{uuid.uuid4().hex}"
        folder.mkdir(parents=True)
        ours, theirs = socket.socketpair()
        root = str(Path(__file__).resolve().parents[2])
        kept = {name: value for name, value in os.environ.items() if name not in _SECRETS}
        path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
        words = [str(theirs.fileno()), str(self.state), self.base, str(folder), str(self.memory_bytes)]
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "sparql.sync.evaluator", *words],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,  # an allocation that fails prints a page, with values of the graph in it
                env={**kept, "PYTHONPATH": path},
            )
        finally:
            theirs.close()
        self._sock, self._folder = ours, folder

    def _end(self) -> int | None:
        """The process is gone; returns how it ended."""
        process, sock, folder = self._process, self._sock, self._folder
        self._process = self._sock = self._folder = None
        if sock is not None:
            sock.close()
        status = None
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(0.05)
            if status is None:
                process.kill()
                process.wait()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        return status


def _late(seconds: float) -> Refused:
    words = f"The update did not end within update_seconds ({seconds:.3g} s). Nothing was done."
    return Refused("update-timeout", words, limit="update_seconds")


def main(fd: int, state: Path, base: str, folder: Path, memory_bytes: int) -> None:
    """Serve until the other side closes the socket."""
    from sparql.query.worker import Replica

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C is for the writer
    sock = socket.socket(fileno=fd)
    stream = sock.makefile("rb")
    replica = Replica(state, folder, asked=base)
    _limit_memory(memory_bytes)
    while line := stream.readline():
        ask = json.loads(line)
        # The kernel ends what Python cannot: a pattern that is evaluated holds everything else up.
        signal.setitimer(signal.ITIMER_REAL, ask["seconds"] + GRACE)
        document = stream.read(ask["bytes"])
        answer, parts, spent = _answer(replica, base, ask, document)
        sock.sendall(json.dumps(answer).encode("utf-8", "surrogatepass") + b"\n" + b"".join(parts))
        signal.setitimer(signal.ITIMER_REAL, 0)
        if spent:
            break


def _answer(replica: Any, base: str, ask: dict[str, Any], document: bytes) -> tuple[dict[str, Any], list[bytes], bool]:
    done = 0
    try:
        replica.advance()
        names = Names(base)
        task = Task(
            ask.get("text", ""), ask.get("against") or base, ask.get("prefixes", {}), ask.get("default_graphs", ()),
            ask.get("named_graphs", ()), ask.get("own"), ask.get("within"), ask["limit"],
        )  # fmt: skip
        if ask.get("needed") is not None:
            from sparql.sync.needed import needed

            task.needed = needed(ask["needed"])
        if ask["do"] == "document":
            edit = Edit()
            for kind, size in ask["documents"]:
                data, document = document[:size], document[size:]
                edit.whole.setdefault(ask["graph"], set()).update(
                    statements(data, kind, task.base, task, names, stable=ask["stable"])
                )
        else:
            if ask.get("load") is not None:
                task.fetch = _fetch(ask["load"])
            evaluation = Evaluation(replica.store, task, names)
            try:
                edit = evaluation.run()
            finally:
                done = evaluation.done
                if done <= MANY:
                    evaluation.undo()
    except Refused as no:
        return {"error": {"code": no.code, "message": no.message, **no.details}}, [], done > MANY
    except MemoryError:
        words = "The update needed more memory than query_memory_bytes. Nothing was done."
        return {"error": {"code": "update-lost", "message": words, "limit": "query_memory_bytes"}}, [], True
    except RecursionError:
        return {"error": {"code": "too-deep", "message": "The update nests too deep."}}, [], True
    except (ValueError, SyntaxError) as wrong:
        return {"error": {"code": "update-error", "message": str(wrong)}}, [], done > MANY
    except Exception as wrong:  # the outermost edge of one update: the next one must be heard
        return {"error": {"code": "failed", "message": f"{type(wrong).__name__}: {wrong}"}}, [], True
    rows, parts = [], []
    for side in ("removed", "added", "whole"):
        for graph, found in getattr(edit, side).items():
            if found or side == "whole":
                data = "\n".join(found).encode()
                rows.append((side, graph, len(data)))
                parts.append(data)
    spent = done > MANY
    ok = {
        "epoch": replica.epoch, "there": edit.there, "kept": edit.kept, "kept_count": edit.kept_count,
        "looked": edit.looked, "depends": edit.depends, "parts": rows, "spent": spent,
    }  # fmt: skip
    return {"ok": ok}, parts, spent


def _fetch(load: dict[str, Any]) -> Fetch:
    from sparql.outgoing import Outgoing, OutgoingError, OutgoingRefused

    outgoing = Outgoing(load["allow"], allow_private=load["private"], max_bytes=load["bytes"], seconds=load["seconds"])
    accept = (
        "text/turtle, application/n-triples, application/rdf+xml;q=0.9, application/ld+json;q=0.8, text/plain;q=0.1"
    )

    def fetch(url: str) -> tuple[str, bytes]:
        try:
            found = outgoing.get(url, accept)
        except OutgoingRefused as wrong:
            raise Refused("load-off", f"LOAD <{url}> is not allowed here: {wrong}") from wrong
        except OutgoingError as wrong:
            raise Refused("load-failed", f"LOAD <{url}> failed: {wrong}") from wrong
        if found.content_type not in FORMATS:
            raise Refused("load-failed", f"LOAD <{url}> failed: {found.content_type!r} is not RDF that is read here.")
        return found.content_type, found.body

    return fetch


def _limit_memory(memory_bytes: int) -> None:
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if not memory_bytes or not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(OSError, ValueError, IndexError):
        now = int(Path("/proc/self/statm").read_text().split()[5]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_DATA, (now + memory_bytes,) * 2)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), sys.argv[3], Path(sys.argv[4]), int(sys.argv[5]))
