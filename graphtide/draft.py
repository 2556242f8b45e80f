"""`graphtide init` writes what a person would otherwise start typing: settings, vocabulary and shapes from the data."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from sources.discovery import discover
from sources.files import FilesSource
from sources.formats import RDF
from sources.patterns import escape
from sources.record import Record, SourceError
from transforms.draft import Sample
from transforms.draft import draft as drafted

from .pipeline import named
from .settings import FILE, Settings, SettingsError

VOCABULARY, SHAPES = "ontology/vocabulary.ttl", "ontology/shapes.ttl"
SAMPLED = 5000
"""Records of each file that are looked at."""


class DraftError(ValueError):
    """Nothing can be drafted: `str()` says why and what to do."""


@dataclass(frozen=True)
class Drafted:
    """What was written, relative to the folder, and what a person should look at."""

    written: list[str]
    notes: list[str]


def draft(dir: str, *, force: bool = False) -> Drafted:
    """Write graphtide.toml, a vocabulary and shapes that accept the data in `dir` as it is.

    Raises DraftError when one is there without `force`, or when there is no data; then nothing is written.
    """
    root = Path(dir).resolve()
    if not root.is_dir():
        raise SettingsError(dir, None, "there is no such folder. Name the folder that holds your data with --dir.")
    there = [name for name in (FILE, VOCABULARY, SHAPES) if (root / name).exists()]
    if there and not force:
        raise DraftError(f"{', '.join(there)} is there already. Add --force to write over it.")
    found = discover(root)
    names = named([path for path, _ in found.taken])
    samples: list[Sample] = []
    notes: list[str] = []
    for path, format in found.taken:
        if path in (VOCABULARY, SHAPES):
            continue
        try:
            records = _records(root, names[path], path, format)
        except SourceError as wrong:
            notes.append(str(wrong))
            continue
        samples.append(Sample(names[path], escape(path), records))
    if not samples:
        why = "; ".join(notes) or f"{len(found.skipped)} files were skipped"
        raise DraftError(f"There is no data in {root} to draft from ({why}). Put files there first.")
    made = drafted(samples, base=Settings(root).base, vocabulary_path=VOCABULARY, shapes_path=SHAPES)
    texts = {FILE: made.settings, VOCABULARY: made.vocabulary, SHAPES: made.shapes}
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, "utf-8")
    return Drafted(list(texts), [*made.notes, *notes])


def _records(root: Path, name: str, path: str, format: str) -> list[Record]:
    base = Settings(root).base if format in RDF else None
    source = FilesSource(name, root, [escape(path)], format=format, base=base)
    batch = source.read_scope(path, None)
    return list(islice(batch.records, SAMPLED)) if batch is not None else []
