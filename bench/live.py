"""From a saved file to its answer, while 1,000 files are edited 50 times a second."""

from __future__ import annotations

import random
import sys
import tempfile
import threading
import time
from pathlib import Path
from queue import Empty, Queue

from bench import load
from bench.figure import Figure, percentile
from bench.process import cpu_and_written
from bench.query import asker, free_port, serving

FILES, ROWS, EDITS_A_SECOND = 1_000, 20, 50
# One edit in so many is followed to its answer: polling them all would measure the polling.
SAMPLE = 5
SETTINGS = """base = "https://bench.example/"
[prefixes]
b = "https://bench.example/ns#"
[sources.rows]
paths = ["tables/*.csv"]
key = "id"
[sources.rows.map]
class = "b:Row"
iri = "row/{id}"
columns = { value = { property = "b:value", datatype = "xsd:integer" }, name = "b:name" }
"""


def content(number: int, values: list[int]) -> str:
    lines = ["id,name,value"] + [f"{number}-{row},row {row} of {number},{value}" for row, value in enumerate(values)]
    return "\n".join(lines) + "\n"


def question(number: int, row: int) -> str:
    return f"SELECT ?v WHERE {{ <https://bench.example/row/{number}-{row}> <https://bench.example/ns#value> ?v }}"


class Editor:
    """Edits files at a steady pace and follows a sample of the edits to their answers."""

    def __init__(self, tables: Path, port: int) -> None:
        self.tables, self.port = tables, port
        self.values = [[0] * ROWS for _ in range(FILES)]
        self.followed: Queue[tuple[int, int, int, float]] = Queue()
        self.seen: list[tuple[float, float]] = []
        self.lost: list[str] = []
        self.edits = 0
        self.stop = threading.Event()

    def edit(self, seconds: float) -> None:
        choose = random.Random(7)
        start = time.perf_counter()
        while (now := time.perf_counter() - start) < seconds:
            number, row = choose.randrange(FILES), choose.randrange(ROWS)
            self.edits += 1
            self.values[number][row] = self.edits
            (self.tables / f"t{number:04}.csv").write_text(content(number, self.values[number]))
            if self.edits % SAMPLE == 0:
                self.followed.put((number, row, self.edits, time.perf_counter()))
            time.sleep(max(0.0, self.edits / EDITS_A_SECOND - now))
        self.stop.set()

    def follow(self) -> None:
        ask = asker(self.port, "/sparql")
        while not (self.stop.is_set() and self.followed.empty()):
            try:
                number, row, value, saved = self.followed.get(timeout=0.2)
            except Empty:
                continue
            while True:
                body = ask(question(number, row))
                # A later edit of the same row answers for this one too.
                shown = body.split(b'"value":"')[-1].split(b'"')[0]
                if shown.isdigit() and int(shown) >= value:
                    self.seen.append((saved, time.perf_counter() - saved))
                    break
                if time.perf_counter() - saved > 30:
                    self.lost.append(f"row {number}-{row} = {value}")
                    break
                time.sleep(0.004)


def figures(out: Path, *, rounds: int, minutes: float) -> list[Figure]:
    """Save to answer under load, its cost, and a big file's one changed row."""
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        folder = Path(scratch)
        tables = folder / "tables"
        tables.mkdir()
        (folder / "graphtide.toml").write_text(SETTINGS)
        for number in range(FILES):
            (tables / f"t{number:04}.csv").write_text(content(number, [0] * ROWS))
        load.sync(folder)
        port = free_port()
        command = [sys.executable, "-m", "graphtide", "up", str(folder), "--port", str(port), "--no-dagster"]
        with serving(command, port, "/ready") as up:
            time.sleep(3)
            editor = Editor(tables, port)
            cpu, written = cpu_and_written(up.pid)
            threads = [threading.Thread(target=editor.follow) for _ in range(4)]
            for one in threads:
                one.start()
            start = time.perf_counter()
            editor.edit(minutes * 60)
            for one in threads:
                one.join()
            cpu_after, written_after = cpu_and_written(up.pid)
            if editor.lost:
                raise RuntimeError(f"{len(editor.lost)} edits never showed, the first: {editor.lost[0]}")
        times = [latency * 1e3 for _, latency in editor.seen]
        first = [latency * 1e3 for saved, latency in editor.seen if saved - start < 60]
        last = [latency * 1e3 for saved, latency in editor.seen if saved - start > minutes * 60 - 60]
        note = f"{editor.edits:,} edits, {len(times):,} followed, {minutes:g} minutes"
        found = [
            Figure("save to answer, p50", "ms", (percentile(times, 0.5),), aim=100, note=note),
            Figure("save to answer, p95", "ms", (percentile(times, 0.95),), aim=300),
            Figure(
                "save to answer, p95 of last minute / first", "x", (percentile(last, 0.95) / percentile(first, 0.95),)
            ),
            Figure("CPU an edit", "ms", ((cpu_after - cpu) * 1e3 / editor.edits,), note="writer, server and workers"),
            Figure("written an edit", "KB", ((written_after - written) / 1e3 / editor.edits,)),
        ]
        return found + big_file(Path(scratch) / "big", rounds) + commit_to_visible(out, rounds)


def big_file(folder: Path, rounds: int) -> list[Figure]:
    """One changed row of a 100,000-row file, saved whole."""
    load.project(folder, validated=False)
    load.sync(folder)
    lines = (folder / "rows.csv").read_text().splitlines()
    port = free_port()
    command = [sys.executable, "-m", "graphtide", "up", str(folder), "--port", str(port), "--no-dagster"]
    times = []
    with serving(command, port, "/ready"):
        time.sleep(3)
        ask = asker(port, "/sparql")
        for number in range(max(3, rounds)):
            cells = lines[5000].split(",")
            cells[4] = str(2_000_000 + number)
            lines[5000] = ",".join(cells)
            (folder / "rows.csv").write_text("\n".join(lines) + "\n")
            saved = time.perf_counter()
            query = f"ASK {{ <https://bench.example/row/{cells[0]}> <https://bench.example/ns#c04> {cells[4]} }}"
            while b"true" not in ask(query):
                time.sleep(0.005)
                if time.perf_counter() - saved > 120:
                    raise RuntimeError("the changed row of the 100,000-row file never showed")
            times.append((time.perf_counter() - saved) * 1e3)
    return [Figure("save to answer, one row of 100,000", "ms", tuple(times))]


def commit_to_visible(out: Path, rounds: int) -> list[Figure]:
    """From the commit's acknowledgement to an answer that shows it, files left out."""
    from sparql.log import Change
    from sparql.query import Pool
    from sparql.store import open_store

    medians = []
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        base = "https://bench.example/"
        store = open_store(Path(scratch), base)
        pool = Pool(Path(scratch), base, workers=1, spares=0)
        try:
            store.checkpoint()
            pool.start()
            for _ in range(max(3, rounds)):
                times = []
                for number in range(200):
                    said = f'<{base}x> <{base}p{len(medians)}> "{number}"'
                    start = time.perf_counter()
                    store.commit(Change(removed={}, added={"": frozenset({said})}))
                    while b"true" not in b"".join(pool.run(f"ASK {{ {said} }}", format="json")):
                        time.sleep(0.001)
                    times.append((time.perf_counter() - start) * 1e3)
                medians.append(percentile(times, 0.5))
        finally:
            pool.close()
            store.close()
    return [Figure("commit to visible, p50", "ms", tuple(medians), aim=15)]
