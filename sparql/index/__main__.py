"""`python -m sparql.index STATE --base BASE` keeps the indexes of one state folder until its standard input ends."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import logging
import os
import sys
import threading
import time
from pathlib import Path

from sparql.index import followers
from sparql.index.following import FOLDER, LOCK, Following

LOOK_SECONDS, DOZE_SECONDS, AWAKE_SECONDS = 0.1, 0.25, 10.0
"""It looks for commits this often: soon after one, and long after the last."""
NICE = 10
"""Answers come first."""


def main(arguments: list[str] | None = None) -> int:
    """Returns when whoever started it is gone. Waits while another process keeps the same folder."""
    parser = argparse.ArgumentParser(prog="python -m sparql.index")
    parser.add_argument("state", type=Path)
    parser.add_argument("--base", required=True)
    asked = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="graphtide index: %(message)s")
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with contextlib.suppress(OSError):
        os.nice(NICE)
    folder = asked.state / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / LOCK, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        following = Following(asked.state, asked.base, followers())
        changed = time.monotonic()
        while True:
            if following.round():
                changed = time.monotonic()
            time.sleep(LOOK_SECONDS if time.monotonic() - changed < AWAKE_SECONDS else DOZE_SECONDS)


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 4096):
        pass
    # At any place: every transaction is whole or not there, and what lies in the folder is tidied at the next start.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
