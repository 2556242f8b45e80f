"""First load and re-sync of a 100,000 x 20 table, against bare bulk_load of the same quads and against Morph-KGC."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from bench.figure import Figure, ratios
from bench.process import disk, run

ROWS, COLUMNS = 100_000, 20
MORPH = "morph-kgc==2.10.0"

BULK = """
import sys
from pyoxigraph import RdfFormat, Store
store = Store(sys.argv[2])
store.bulk_load(path=sys.argv[1], format=RdfFormat.N_QUADS)
store.flush()
"""
DUMP = """
import sys
from pyoxigraph import DefaultGraph, RdfFormat, Store
from sparql.checkpoint import newest
from pathlib import Path
store = Store.read_only(str(newest(Path(sys.argv[1])).data))
store.dump(sys.argv[2], format=RdfFormat.N_QUADS)
store.dump(sys.argv[3], format=RdfFormat.N_TRIPLES, from_graph=DefaultGraph())
"""


def rows(count: int, changed: float = 0.0, cells_changed: int = COLUMNS) -> Iterable[str]:
    """CSV lines: a key, then words, numbers and dates; a share of the rows has that many new values."""
    chosen = random.Random(1)
    yield ",".join(["id", *(f"c{n:02}" for n in range(1, COLUMNS))])
    for row in range(count):
        fresh = chosen.random() < changed
        old, new = random.Random(row), random.Random(row + 10_000_000)
        cells = [str(row)]
        for column in range(1, COLUMNS):
            values = new if fresh and column <= cells_changed else old
            kind = column % 4
            if kind == 0:
                cells.append(str(values.randrange(1_000_000)))
            elif kind == 1:
                cells.append(f"{values.choice(('alpha', 'beta', 'gamma'))} {values.randrange(10_000)}")
            elif kind == 2:
                cells.append(f"20{values.randrange(10, 26)}-{values.randrange(1, 13):02}-{values.randrange(1, 29):02}")
            else:
                cells.append(f"{values.randrange(100_000) / 100:.2f}")
        yield ",".join(cells)


DATATYPES = {0: "integer", 2: "date", 3: "decimal"}
SETTINGS = 'base = "https://bench.example/"\n[prefixes]\nb = "https://bench.example/ns#"\n'


def settings(validated: bool) -> str:
    """The mapping of the table, with or without shapes to check it."""
    text = SETTINGS
    if validated:
        text += '[ontology]\nshapes = ["shapes.ttl"]\n'
    text += '[sources.rows]\npath = "rows.csv"\nkey = "id"\n[sources.rows.map]\nclass = "b:Row"\niri = "row/{id}"\n'
    text += "[sources.rows.map.columns]\n"
    for column in range(1, COLUMNS):
        kind = DATATYPES.get(column % 4)
        text += (
            f'c{column:02} = {{ property = "b:c{column:02}"' + (f', datatype = "xsd:{kind}"' if kind else "") + " }\n"
        )
    return text


SHAPES = """@prefix b: <https://bench.example/ns#> .
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
b:RowShape a sh:NodeShape ; sh:targetClass b:Row ;
  sh:property [ sh:path b:c01 ; sh:minCount 1 ; sh:maxCount 1 ; sh:datatype xsd:string ] ;
  sh:property [ sh:path b:c02 ; sh:minCount 1 ; sh:datatype xsd:date ] ;
  sh:property [ sh:path b:c03 ; sh:datatype xsd:decimal ; sh:minInclusive 0.0 ] ;
  sh:property [ sh:path b:c04 ; sh:datatype xsd:integer ; sh:minInclusive 0 ] ;
  sh:property [ sh:path b:c05 ; sh:pattern "^(alpha|beta|gamma)" ] .
"""

R2RML = """@prefix rr: <http://www.w3.org/ns/r2rml#> .
@prefix rml: <http://semweb.mmlab.be/ns/rml#> .
@prefix ql: <http://semweb.mmlab.be/ns/ql#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
<#Rows> a rr:TriplesMap ;
  rml:logicalSource [ rml:source "rows.csv" ; rml:referenceFormulation ql:CSV ] ;
  rr:subjectMap [ rr:template "https://bench.example/row/{id}" ; rr:class <https://bench.example/ns#Row> ] ;
"""


def rml() -> str:
    """The same mapping for Morph-KGC."""
    lines = []
    for column in range(1, COLUMNS):
        kind = DATATYPES.get(column % 4)
        typed = f" ; rr:datatype xsd:{kind}" if kind else ""
        lines.append(
            f"  rr:predicateObjectMap [ rr:predicate <https://bench.example/ns#c{column:02}> ; "
            f'rr:objectMap [ rml:reference "c{column:02}"{typed} ] ]'
        )
    return R2RML + " ;\n".join(lines) + " .\n"


def project(folder: Path, validated: bool) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "graphtide.toml").write_text(settings(validated))
    (folder / "shapes.ttl").write_text(SHAPES)
    write(folder, 0.0)
    return folder


def write(folder: Path, changed: float, cells_changed: int = COLUMNS) -> None:
    (folder / "rows.csv").write_text("\n".join(rows(ROWS, changed, cells_changed)) + "\n")


def sync(folder: Path) -> tuple[float, int]:
    done = run([sys.executable, "-m", "graphtide", "sync", "--dir", str(folder), "--json"])
    return done.seconds, done.peak_bytes


def morph(out: Path) -> Path | None:
    """Morph-KGC's Python in its own environment; None, said aloud, where it cannot be installed."""
    python = out / "morph-kgc" / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(python.parents[1])], check=True)
        done = subprocess.run([str(python), "-m", "pip", "install", "-q", MORPH], capture_output=True, text=True)
        if done.returncode:
            print(f"load: {MORPH} could not be installed, its figure is left out:\n{done.stderr[-400:]}")
            return None
    return python


def figures(out: Path, *, rounds: int, minutes: float) -> list[Figure]:
    """The figures of the first load and the re-syncs."""
    plain, checked, bulk, facts_only, rival = [], [], [], [], []
    peak, unchanged, one_percent, ten_percent, size = [], [], [], [], []
    one_percent_a_cell, ten_percent_a_cell = [], []
    python = morph(out)
    facts = 1
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        for number in range(rounds):
            here = Path(scratch) / str(number)
            folder = project(here / "plain", validated=False)
            seconds, bytes_ = sync(folder)
            plain.append(seconds)
            peak.append(float(bytes_))
            state = folder / ".graphtide"
            quads, triples = here / "all.nq", here / "default.nt"
            run([sys.executable, "-c", DUMP, str(state), str(quads), str(triples)])
            with triples.open("rb") as lines:
                facts = sum(1 for _ in lines)
            size.append(disk(state) / facts)
            bulk.append(run([sys.executable, "-c", BULK, str(quads), str(here / "bulk")]).seconds)
            facts_only.append(run([sys.executable, "-c", BULK, str(triples), str(here / "facts")]).seconds)
            if python is not None:
                (here / "plain" / "rml.ttl").write_text(rml())
                config = "[CONFIGURATION]\noutput_file=out.nt\n[rows]\nmappings=rml.ttl\n"
                (here / "plain" / "morph.ini").write_text(config)
                mapped = run([str(python), "-m", "morph_kgc", "morph.ini"], cwd=here / "plain")
                loaded = run([sys.executable, "-c", BULK, str(here / "plain" / "out.nt"), str(here / "rival")])
                rival.append(mapped.seconds + loaded.seconds)
            unchanged.append(sync(folder)[0])
            for share, cells, into in (
                (0.01, 1, one_percent_a_cell),
                (0.11, 1, ten_percent_a_cell),
                (0.0, 1, []),
                (0.01, COLUMNS, one_percent),
                (0.11, COLUMNS, ten_percent),
            ):
                write(folder, share, cells)
                into.append(sync(folder)[0])
            checked.append(sync(project(here / "checked", validated=True))[0])
            shutil.rmtree(here)
    found = [
        Figure("first load", "s", tuple(plain), note=f"{ROWS:,} x {COLUMNS}, {facts:,} facts, validation off"),
        Figure("first load: facts a second", "1/s", tuple(facts / s for s in plain)),
        Figure("first load: peak memory", "MB", tuple(b / 1e6 for b in peak)),
        Figure("first load: disk", "bytes/fact", tuple(size)),
        ratios("first load / bulk_load of the same quads", plain, bulk, aim=1.5),
        ratios("first load / bulk_load of the facts alone", plain, facts_only),
        ratios("first load with validation / without", checked, plain),
        ratios("re-sync unchanged / first load", unchanged, plain, aim=0.05),
        ratios("re-sync 1 % of rows changed in one cell / first load", one_percent_a_cell, plain, aim=0.08),
        ratios("re-sync 10 % of rows changed in one cell / first load", ten_percent_a_cell, plain, aim=0.30),
        ratios("re-sync 1 % of rows changed in every cell / first load", one_percent, plain, aim=0.08),
        ratios("re-sync 10 % of rows changed in every cell / first load", ten_percent, plain, aim=0.30),
    ]
    if rival:
        found.append(ratios("first load / Morph-KGC 2.10 and load", plain, rival, aim=1.0))
    return found
