"""What a file may cost is bounded before it is read, and every bound has a name to raise it by."""

from __future__ import annotations

from dataclasses import dataclass

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """The most one file may take; each field is a setting under `[limits]`."""

    max_file_bytes: int = GIB
    """A file larger than this is not opened."""
    max_document_bytes: int = 256 * MIB
    """The same for formats that are read whole: JSON, RDF, Parquet, Excel."""
    max_yaml_bytes: int = 16 * MIB
    """The same for YAML, whose reader takes two seconds a megabyte, a hundred times JSON's."""
    max_line_bytes: int = 16 * MIB
    """A longer line in CSV, TSV or JSON Lines means that the file is something else."""
    max_record_bytes: int = 16 * MIB
    """The most text one XML element that is a record may hold."""
    max_depth: int = 100
    """How deep JSON, YAML and XML may nest."""
    max_expanded_bytes: int = GIB
    """What an .xlsx archive may unpack to."""
    max_expansion: int = 1000
    """How many times its own size an .xlsx archive of more than 1 MiB unpacked may unpack to."""
    max_nodes: int = 2_000_000
    """How many YAML nodes there may be once every alias is written out."""
    max_cells: int = 50_000_000
    """The rectangle of an Excel sheet, or rows times columns of a Parquet file."""
    max_columns: int = 16_384
    """How wide a table may be."""
    max_statements: int = 10_000_000
    """How many statements an RDF file may make, each counted once per record it belongs to."""
    max_blank_steps: int = 2_000_000
    """The work spent on telling apart the blank nodes of one cycle."""


def size(count: int) -> str:
    """A number of bytes as people say it."""
    for unit, scale in (("GB", GIB), ("MB", MIB), ("kB", KIB)):
        if count >= scale:
            return f"{count / scale:.1f} {unit}"
    return f"{count} bytes"
