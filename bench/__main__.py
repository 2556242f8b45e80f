"""Runs the benchmarks named on the command line, or all; prints the table and writes bench/out/figures.json."""

from __future__ import annotations

import argparse
import importlib
import json
import time
from pathlib import Path

from bench.figure import Figure, machine, table

OUT = Path(__file__).parent / "out"
ALL = ("load", "query", "explore", "hostile", "live", "index", "reporter", "syntax", "question")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("which", nargs="*", choices=[*ALL, []], help=f"any of {', '.join(ALL)}; all when none is named")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long the live benchmark edits files")
    options = parser.parse_args()
    OUT.mkdir(exist_ok=True)
    figures: list[Figure] = []
    for name in options.which or ALL:
        figures += importlib.import_module(f"bench.{name}").figures(OUT, rounds=options.rounds, minutes=options.minutes)
        # Written after each, so that a long run that is cut off keeps what it measured.
        report = {"machine": machine(), "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        report["figures"] = [one.to_dict() for one in figures]
        (OUT / "figures.json").write_text(json.dumps(report, indent=2) + "\n")
    print(table(figures))


if __name__ == "__main__":
    main()
