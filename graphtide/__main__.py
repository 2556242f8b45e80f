"""`python -m graphtide` is the command `graphtide`, with the working directory off the import path."""

from __future__ import annotations

import os
import sys


def _without_the_working_directory() -> None:
    # `python -m` puts it first; a user's folder `sources/` must never be taken for ours.
    here, ours = os.getcwd(), os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    if os.path.abspath(here) != ours:
        sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or here) != os.path.abspath(here)]


if __name__ == "__main__":
    _without_the_working_directory()
    from graphtide.cli import main

    main()
