"""A draft says what the data already shows and accepts that data; the rest is for a person to say."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ontology.facts import XSD, FactsError, iri, string
from sources.record import Record
from transforms.direct import LABELS, textual
from transforms.iri import DEFAULT_BASE, segment
from transforms.nested import values_at
from transforms.values import BadValue, converter, plain

FEW = 10
"""The most values a column may have to be drafted as a list of allowed ones."""
SAMPLED = 50_000
"""Values of a column looked at; those beyond change nothing."""

_KINDS = {
    "service": "gt:Service", "database": "gt:Database", "cache": "gt:Cache", "queue": "gt:Queue", "team": "gt:Team",
    "person": "gt:Person", "repository": "gt:Repository", "repo": "gt:Repository", "issue": "gt:Issue",
    "note": "gt:Note",
}  # fmt: skip
_SUFFIXES = frozenset(("id", "ids", "identifier", "key", "code", "number", "no", "uuid", "ref"))
_PLURALS = {"people": "person", "persons": "person", "statuses": "status", "series": "series", "news": "news"}
_TYPES = ("integer", "decimal", "boolean", "date", "dateTime")
_LOSSLESS = re.compile(r"\s*-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?\s*\Z")
# What Turtle allows in a local name without an escape, and where one word of such a name ends.
_RUNS = re.compile(r"[0-9A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff]+")
_HUMPS = re.compile(r"(?<=[a-z\u00df-\u00ff0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


@dataclass(frozen=True)
class Sample:
    """Some records of one source as discovery found it: `path` and `options` are written into its table as they are."""

    source: str
    path: str | Sequence[str]
    records: Sequence[Record]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Draft:
    """The text of three files for a person to edit, and what could not be drafted."""

    settings: str
    vocabulary: str
    shapes: str
    notes: tuple[str, ...]


@dataclass
class _Column:
    path: str
    values: list[Any]
    filled: int
    single: bool
    texts: set[str]
    property: str = ""
    datatype: str | None = None
    link: _Table | None = None
    split: str | None = None
    iri: bool = False
    options: list[str] = field(default_factory=list)


@dataclass
class _Table:
    sample: Sample
    kind: str
    term: str
    columns: list[_Column]
    skipped: list[str]
    key: _Column | None = None
    label: _Column | None = None
    rdf: bool = False

    @property
    def iri(self) -> str:
        return f"{segment(self.kind)}/{{{self.key.path if self.key else '@key'}}}"


def draft(
    samples: Sequence[Sample],
    *,
    base: str = DEFAULT_BASE,
    prefix: str = "my",
    vocabulary_path: str = "ontology/vocabulary.ttl",
    shapes_path: str = "ontology/shapes.ttl",
) -> Draft:
    """graphtide.toml, vocabulary and shapes for these sources; the same samples give the same text.

    The key of a table is the first column that is always there and never twice, links are columns whose values are
    another table's keys, and a datatype is the first that every value has.
    """
    namespace = f"{base.rstrip('/#')}/ns#"
    tables = [_table(sample, prefix) for sample in samples]
    _distinct_kinds(tables, prefix)
    for table in tables:
        _key(table)
    for table in tables:
        _label(table)
        _describe(table, tables)
    _properties(tables, prefix)
    notes = [note for table in tables for note in _notes(table)]
    return Draft(
        _settings(tables, base, prefix, namespace, vocabulary_path, shapes_path),
        _vocabulary(tables, prefix, namespace),
        _shapes(tables, prefix, namespace),
        tuple(notes),
    )


# -- looking


def _table(sample: Sample, prefix: str) -> _Table:
    kind = _singular(sample.source.rsplit("/", 1)[-1])
    records = sample.records
    if records and all(set(record.data) == {"statements"} for record in records):
        return _Table(sample, kind, "", [], [], rdf=True)
    paths: dict[str, None] = {}
    skipped: dict[str, None] = {}
    for record in records:
        for path, usable in _paths(record.data, ""):
            (paths if usable else skipped)[path] = None
    columns = [_column(path, records) for path in paths if path not in skipped]
    skipped = {path: None for path in skipped if path in paths or not _inside(path, paths)}
    term = _KINDS.get(kind.lower().replace("-", "_"), f"{prefix}:{_pascal(kind)}")
    return _Table(sample, kind, term, columns, list(skipped))


def _paths(data: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, bool]]:
    for name, value in data.items():
        path = f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield path, False
            yield from _paths(value, f"{path}.")
        elif isinstance(value, (list, tuple)) and any(isinstance(member, (Mapping, list, tuple)) for member in value):
            yield path, False
        else:
            yield path, bool(str(name))


def _inside(path: str, paths: Mapping[str, None]) -> bool:
    """Whether something of an object is taken, so that the object itself need not be mentioned."""
    return any(other.startswith(f"{path}.") for other in paths)


def _column(path: str, records: Sequence[Record]) -> _Column:
    values: list[Any] = []
    filled, single = 0, True
    for record in records:
        found = [value for value in values_at(record.data, path) if _says(value)]
        filled += bool(found)
        single = single and len(found) <= 1
        if len(values) < SAMPLED:
            values.extend(found)
    texts = set()
    for value in values:
        try:
            texts.add(plain(value).strip())
        except BadValue:
            continue
    return _Column(path, values, filled, single, texts)


def _says(value: Any) -> bool:
    return value is not None and not (isinstance(value, str) and not value.strip())


def _key(table: _Table) -> None:
    count = len(table.sample.records)
    able = [
        column
        for column in table.columns
        if count and column.filled == count and column.single and len(column.texts) == count and _nameable(column.path)
    ]
    named = table.sample.options.get("key")
    if isinstance(named, str):
        able = [column for column in able if column.path == named]
    own = [word.lower() for word in _words(table.kind)]

    def rank(column: _Column) -> int:
        words = [word.lower() for word in _words(column.path)]
        if words in ([word] for word in ("id", "key", "identifier", "uuid")):
            return 0
        if words[-1:] and words[-1] in _SUFFIXES and words[:-1] == own:
            return 1
        if words in (["name"], ["code"], ["login"], ["slug"], [*own, "name"]):
            return 2
        return 3 if words[-1:] and words[-1] in _SUFFIXES else 4

    able = [column for column in able if _datatype(column) not in ("date", "dateTime", "decimal", "boolean", "double")]
    able.sort(key=rank)
    texts = [column for column in able if all(isinstance(value, (str, int)) for value in column.values)]
    table.key = texts[0] if texts and not (isinstance(named, list)) else None


def _nameable(path: str) -> bool:
    return not any(mark in path for mark in "{}") and not path.startswith(("+", "@"))


def _label(table: _Table) -> None:
    by_name = {_lowered(column.path): column for column in reversed(table.columns)}
    for wanted in (*LABELS, f"{table.kind}_name", f"{_lowered(table.sample.source)}_name"):
        column = by_name.get(wanted.lower())
        if column is not None and column.values and column.single and all(isinstance(v, str) for v in column.values):
            table.label = column
            return
    table.label = table.key


def _describe(table: _Table, tables: Sequence[_Table]) -> None:
    for column in table.columns:
        if column is table.label or not column.values:
            continue
        if column is not table.key:
            column.link, column.split = _link(column, table, tables)
        if column.link is not None:
            continue
        column.iri = all(isinstance(value, str) and _is_iri(value) for value in column.values)
        if column.iri:
            continue
        column.datatype = _datatype(column)
        few = 1 < len(column.texts) <= FEW and len(column.values) >= 4 * len(column.texts)
        if (
            few
            and column.datatype is None
            and column is not table.key
            and all(isinstance(v, str) for v in column.values)
        ):
            column.options = sorted(set(column.values))


def _link(column: _Column, table: _Table, tables: Sequence[_Table]) -> tuple[_Table | None, str | None]:
    words = [word.lower() for word in _words(column.path)]
    if not _nameable(column.path) or _datatype(column) in ("date", "dateTime", "decimal", "boolean", "double"):
        return None, None
    stem = words[:-1] if len(words) > 1 and words[-1] in _SUFFIXES else words
    best: tuple[int, _Table | None, str | None] = (0, None, None)
    for other in tables:
        if other.key is None or not other.key.texts or (other is table and column is table.key):
            continue
        kind = [word.lower() for word in _words(other.kind)]
        for split in (None, ";", ",", "|"):
            pieces = _pieces(column, split)
            if not pieces or not pieces <= other.key.texts:
                continue
            if [*stem[:-1], _singular(stem[-1])] == kind if stem else False:
                score = 3
            elif kind and kind[-1] in {_singular(word) for word in stem} and len(kind) == 1:
                score = 2
            else:
                wordy = len(pieces) > 1 and all(
                    (split is not None or len(piece) > 2) and re.search(r"[^\W\d_]", piece) for piece in pieces
                )
                score = 1 if wordy else 0
            if score > best[0]:
                best = (score, other, split)
    return best[1], best[2]


def _pieces(column: _Column, split: str | None) -> set[str]:
    if split is None:
        return column.texts
    if not all(isinstance(value, str) for value in column.values) or not any(split in v for v in column.values):
        return set()
    return {piece.strip() for text in column.texts for piece in text.split(split) if piece.strip()}


def _is_iri(text: str) -> bool:
    if not text.startswith(("http://", "https://")):
        return False
    try:
        iri(text.strip())
    except FactsError:
        return False
    return True


def _datatype(column: _Column) -> str | None:
    if all(isinstance(value, str) for value in column.values):
        if textual(column.path):
            return None
        for name in _TYPES:
            if all(_fits(value, name) for value in column.values):
                return name
        return None
    for name in (*_TYPES, "double"):
        if name == "decimal" and any(isinstance(value, float) for value in column.values):
            continue
        if all(_fits(value, name) for value in column.values):
            return name
    return "string"


def _fits(value: Any, name: str) -> bool:
    if isinstance(value, str):
        if name in ("integer", "decimal") and not _LOSSLESS.match(value):
            return False
        if name == "integer" and "." in value:
            return False
        if name == "boolean" and value.strip().lower() not in ("true", "false"):
            return False
    elif isinstance(value, bool) != (name == "boolean") or (name == "integer" and not isinstance(value, int)):
        return False
    try:
        converter(XSD + name)(value)
    except BadValue:
        return False
    return True


# -- naming


def _distinct_kinds(tables: Sequence[_Table], prefix: str) -> None:
    taken: set[str] = set()
    for table in tables:
        kind, term, number = table.kind, table.term, 2
        while table.kind.lower() in taken:
            table.kind = f"{kind}-{number}"
            table.term = f"{prefix}:{_pascal(kind)}{number}" if term else ""
            number += 1
        taken.add(table.kind.lower())


def _properties(tables: Sequence[_Table], prefix: str) -> None:
    """One name for one column name with one range everywhere; another range gets the table's name before it."""
    meant: dict[str, str] = {}
    for table in tables:
        mine: set[str] = set()
        for column in table.columns:
            if column is table.label:
                continue
            name = _camel(column.path) or f"column{table.columns.index(column) + 1}"
            sense = f"{column.path}|{_range(column)}"
            if meant.setdefault(name, sense) != sense or name in mine:
                name = f"{_camel(table.kind)}{name[:1].upper()}{name[1:]}"
            stem, number = name, 2
            while meant.setdefault(name, sense) != sense or name in mine:
                name, number = f"{stem}{number}", number + 1
            mine.add(name)
            column.property = f"{prefix}:{name}"


def _range(column: _Column) -> str:
    if column.link is not None:
        return column.link.term
    if column.iri:
        return ""
    return f"xsd:{column.datatype or 'string'}"


def _words(text: str) -> list[str]:
    return [word for run in _RUNS.findall(text) for word in _HUMPS.split(run)]


def _pascal(text: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in _words(text)) or "Thing"


def _camel(text: str) -> str:
    words = _words(text)
    return "".join([words[0].lower(), *(word[:1].upper() + word[1:].lower() for word in words[1:])]) if words else ""


def _lowered(text: str) -> str:
    return re.sub(r"[\s-]+", "_", text.strip()).lower()


def _singular(word: str) -> str:
    lowered = word.lower()
    if lowered in _PLURALS:
        return _PLURALS[lowered]
    if lowered.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if lowered.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if lowered.endswith("s") and not lowered.endswith(("ss", "us", "is")) and len(word) > 3:
        return word[:-1]
    return word


# -- writing


def _toml(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return str(value)


def _name(key: str) -> str:
    return key if _BARE.match(key) else _toml(key)


def _settings(
    tables: Sequence[_Table], base: str, prefix: str, namespace: str, vocabulary_path: str, shapes_path: str
) -> str:
    lines = [
        "# Drafted from the data by `graphtide init`. Change anything: a running Graphtide takes it up at once.",
        f"base = {_toml(base)}",
        "",
        "[prefixes]",
        f"{_name(prefix)} = {_toml(namespace)}",
        "",
        "[ontology]",
        f"vocabulary = [{_toml(vocabulary_path)}]",
        f"shapes = [{_toml(shapes_path)}]",
    ]
    for table in tables:
        sample = table.sample
        where = f"sources.{_name(sample.source)}"
        several = not isinstance(sample.path, str)
        lines += ["", f"[{where}]", f"{'paths' if several else 'path'} = {_toml(sample.path)}"]
        options = dict(sample.options)
        if table.key is not None and "key" not in options:
            options["key"] = table.key.path
        lines += [f"{_name(key)} = {_toml(value)}" for key, value in options.items()]
        if table.rdf:
            lines.append("# RDF: it is taken as it is and needs no map.")
            continue
        if not sample.records:
            lines.append("# Empty so far: it is mapped directly until it has a map.")
            continue
        if table.key is None and "key" not in options:
            lines.append(
                "# No column is always filled and never twice: rows are known by their place. Name a key if you can."
            )
        lines += ["", f"[{where}.map]", f"class = {_toml(table.term)}", f"iri = {_toml(table.iri)}"]
        lines += ["", f"[{where}.map.columns]", *_columns(table)]
    return "\n".join(lines) + "\n"


def _columns(table: _Table) -> Iterator[str]:
    for column in table.columns:
        name = _name(column.path)
        if column is table.label:
            plainly = all(isinstance(value, str) for value in column.values)
            entry = '"rdfs:label"' if plainly else '{ property = "rdfs:label", datatype = "xsd:string" }'
            yield f"{name} = {entry}"
        elif not column.values:
            yield f"# {_name(column.path)} = {_toml(column.property)}   # empty in what was sampled"
        elif column.link is not None:
            split = f", split = {_toml(column.split)}" if column.split else ""
            target = f"{segment(column.link.kind)}/{{{column.path}}}"
            yield f"{name} = {{ property = {_toml(column.property)}, link = {_toml(target)}{split} }}"
        elif column.iri:
            yield f"{name} = {{ property = {_toml(column.property)}, iri = true }}"
        elif column.datatype is not None:
            yield f"{name} = {{ property = {_toml(column.property)}, datatype = {_toml(f'xsd:{column.datatype}')} }}"
        else:
            yield f"{name} = {_toml(column.property)}"
    for path in table.skipped:
        yield f"# {_name(path)} holds objects: map it in Python, or read it as a source with record_path."


def _head(prefix: str, namespace: str) -> list[str]:
    return [
        f"@prefix {prefix}: <{namespace}> .",
        "@prefix gt: <https://w3id.org/graphtide/ns#> .",
        "@prefix owl: <http://www.w3.org/2002/07/owl#> .",
        "@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .",
        "@prefix sh: <http://www.w3.org/ns/shacl#> .",
        "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .",
        "",
    ]


def _vocabulary(tables: Sequence[_Table], prefix: str, namespace: str) -> str:
    lines = _head(prefix, namespace)
    lines += [f"<{namespace.rstrip('#')}> a owl:Ontology ; rdfs:label {string('Words of this project')} .", ""]
    for table in tables:
        if table.term.startswith(f"{prefix}:"):
            lines.append(f"{table.term} a owl:Class ; rdfs:label {string(table.kind)} .")
    lines.append("")
    seen: set[str] = set()
    for table in tables:
        for column in table.columns:
            if not column.property or column.property in seen or not column.values:
                continue
            seen.add(column.property)
            node = column.link is not None or column.iri
            scope = f" ; rdfs:range {_range(column)}" if _range(column) else ""
            kind = "owl:ObjectProperty" if node else "owl:DatatypeProperty"
            lines.append(f"{column.property} a {kind} ; rdfs:label {string(column.path)}{scope} .")
    return "\n".join(lines) + "\n"


def _shapes(tables: Sequence[_Table], prefix: str, namespace: str) -> str:
    lines = [
        "# Drafted from the data. A Violation (the default) refuses a record, a Warning is only shown:",
        "# take the sh:severity away from what must hold.",
        *_head(prefix, namespace),
    ]
    for table in tables:
        if table.rdf or not table.columns or not table.sample.records:
            continue
        own = f"{prefix}:{_pascal(table.kind)}Shape"
        parts = [f"{own} a sh:NodeShape", f"    rdfs:label {string(f'{_pascal(table.kind)} as it was found')}"]
        parts.append(f"    sh:targetClass {table.term}")
        for column in table.columns:
            parts += [f"    sh:property [ {' ; '.join(shape)} ]" for shape in _property_shapes(table, column)]
        lines += [" ;\n".join(parts) + " .", ""]
    return "\n".join(lines)


def _property_shapes(table: _Table, column: _Column) -> Iterator[list[str]]:
    if not column.values:
        return
    always = column.filled == len(table.sample.records)
    label = column is table.label
    path = f"sh:path {'rdfs:label' if label else column.property}"
    must = [path]
    if column.link is not None or column.iri:
        must.append("sh:nodeKind sh:IRI")
    else:
        must.append(f"sh:datatype xsd:{'string' if label else column.datatype or 'string'}")
    if column.single and column.split is None:
        must.append("sh:maxCount 1")
    if always and column is table.key:
        must.append("sh:minCount 1")
    yield must
    shown = [path, "sh:severity sh:Warning"]
    if always and column is not table.key:
        shown.append("sh:minCount 1")
    if column.link is not None:
        shown.append(f"sh:class {column.link.term}")
    if column.options:
        shown.append(f"sh:in ( {' '.join(string(option) for option in column.options)} )")
    if len(shown) > 2:
        yield shown


def _notes(table: _Table) -> Iterator[str]:
    source = table.sample.source
    if table.rdf:
        return
    if table.key is None and "key" not in table.sample.options and table.sample.records:
        yield f"{source}: no column is always filled and never twice, so rows are known by their place."
    for path in table.skipped:
        yield f"{source}: {path!r} holds objects and is left out."
    for column in table.columns:
        if column.link is not None:
            yield f"{source}: {column.path!r} is taken as a link to {column.link.sample.source}."
