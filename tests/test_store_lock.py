"""One writer at a time, and a message that says who it is."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from sparql.store import Limits, StoreBusy, open_store
from sparql.store.lock import Lock, holder

BASE = "https://lock.example/"
HOLD = """
import sys, time
from pathlib import Path
from sparql.store.lock import Lock
lock = Lock(Path(sys.argv[1]), "graphtide sync", 5)
print("held", flush=True)
time.sleep(60)
"""


def test_a_second_writer_is_told_who_holds_the_store(tmp_path: Path) -> None:
    with open_store(tmp_path, BASE, holder="graphtide up"):
        start = time.monotonic()
        with pytest.raises(StoreBusy) as refused:
            open_store(tmp_path, BASE, limits=Limits(lock_seconds=0.2))
        assert time.monotonic() - start >= 0.2
    assert f"process {os.getpid()} (graphtide up) since 20" in str(refused.value)
    open_store(tmp_path, BASE).close()


def test_the_lock_dies_with_its_process(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(StoreBusy, match=rf"process {child.pid} \(graphtide sync\)"):
            Lock(tmp_path, "test", 0.1)
    finally:
        child.kill()
        child.wait()
    Lock(tmp_path, "test", 1.0).release()
    assert holder(tmp_path) is None


def test_a_forked_child_does_not_keep_the_lock(tmp_path: Path) -> None:
    lock = Lock(tmp_path, "test", 1.0)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(write)
        os.read(read, 1)  # lives until the parent lets it go
        os._exit(0)
    try:
        lock.forget()  # as if the parent were killed
        Lock(tmp_path, "test", 2.0).release()
    finally:
        os.close(write)
        os.waitpid(child, 0)


def test_a_store_that_cannot_be_opened_gives_its_lock_back(tmp_path: Path) -> None:
    (tmp_path / "store.json").write_text("{")
    with pytest.raises(Exception, match="damaged"):
        open_store(tmp_path, BASE)
    Lock(tmp_path, "test", 0.0).release()
