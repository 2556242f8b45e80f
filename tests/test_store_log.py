"""The change log: what is whole and synced has happened, what is torn has not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ontology.facts import string
from sparql import log
from sparql.log import Change, Entry, Head, Log, LogError, LogGap, LogReader, last_logged, parse, read_head

A = "<http://x/a> <http://x/p>"
GRAPHS = ["", "http://x/record/s/1", "http://x/g"]
objects = st.one_of(
    st.sampled_from(["<http://x/o>", '"a <b>"', '"a <b"^^<http://x/t>', '"x"@en', '"\\\\"', '" <http://x/g"']),
    st.text(st.characters(exclude_categories=["Cs"])).map(string),
)
sides = st.dictionaries(st.sampled_from(GRAPHS), st.frozensets(objects.map(lambda o: f"{A} {o}"), min_size=1))
reports = st.lists(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.text() | st.integers()))


def entry(number: int, text: str = "x") -> Entry:
    return Entry(number, number - 1, "2026-01-02T03:04:05.678Z", [], Change(added={"": frozenset({f'{A} "{text}"'})}))


def fill(state: Path, *numbers: int) -> Log:
    made = Log(state, after=numbers[0] - 1)
    for number in numbers:
        made.append(entry(number))
    made.sync()
    return made


@given(removed=sides, added=sides, report=reports)
def test_an_entry_is_read_as_it_was_written(removed, added, report) -> None:
    written = Entry(7, 6, "2026-01-02T03:04:05.678Z", report, Change(removed, added))
    first, _, body = written.to_bytes().partition(b"\n")
    assert parse(body) == written
    assert len(body) == int(first.split()[3])


def test_an_entry_is_rdf_patch_text() -> None:
    text = entry(42).to_bytes().decode().split("\n")
    assert text[1:] == [
        "H id 42 .",
        "H prev 41 .",
        'H time "2026-01-02T03:04:05.678Z" .',
        'H report "[]" .',
        "TX .",
        f'A {A} "x" .',
        "TC .",
        "",
    ]


def test_a_torn_tail_is_cut_off_wherever_it_was_torn(tmp_path: Path) -> None:
    whole = fill(tmp_path, 1, 2)
    data, end = whole.segment.read_bytes(), len(entry(1).to_bytes())
    whole.close()
    for size in range(end, len(data)):
        whole.segment.write_bytes(data[:size])
        opened = Log(tmp_path)
        assert (opened.last, opened.end) == (1, end)
        opened.close()
        assert whole.segment.stat().st_size == end


def test_a_flipped_bit_is_no_entry(tmp_path: Path) -> None:
    whole = fill(tmp_path, 1, 2)
    data = bytearray(whole.segment.read_bytes())
    data[-20] ^= 1
    whole.segment.write_bytes(data)
    assert last_logged(tmp_path) == 1


def test_a_log_that_ends_before_the_store_is_an_error_and_is_not_touched(tmp_path: Path) -> None:
    whole = fill(tmp_path, 1, 2)
    os.truncate(whole.segment, whole.end - 3)
    with pytest.raises(LogError, match=r"ends at commit 1 .* the store is at 2"):
        Log(tmp_path, knows=2)
    assert whole.segment.stat().st_size == whole.end - 3
    whole.segment.unlink()
    with pytest.raises(LogError, match="ends at commit 0, but the store stands at 2"):
        Log(tmp_path, knows=2)


def test_a_reader_sees_what_is_published_and_goes_on_from_there(tmp_path: Path) -> None:
    written, head = fill(tmp_path, 1, 2, 3), Head(tmp_path)
    reader = LogReader(tmp_path, 0)
    assert list(reader.entries()) == []
    head.publish(2)
    assert [one.id for one in reader.entries()] == [1, 2]
    head.publish(3)
    assert [one.id for one in reader.entries()] == [3]
    assert read_head(tmp_path) == 3
    written.close()


PUBLISH = """
import sys, time
from pathlib import Path
from sparql.log import Head
head, commit, ends = Head(Path(sys.argv[1])), 1 << 20, time.monotonic() + 1.5
while time.monotonic() < ends:
    for commit in range(commit + 1, commit + 1001):
        head.publish(commit)
"""


def test_the_published_head_is_never_seen_half_written(tmp_path: Path) -> None:
    head = Head(tmp_path)
    head.publish(1 << 20)
    head.close()
    writer = subprocess.Popen([sys.executable, "-c", PUBLISH, str(tmp_path)])
    seen = [1 << 20]
    while writer.poll() is None:
        seen += [read_head(tmp_path) for _ in range(500)]
    assert writer.returncode == 0
    assert len(set(seen)) > 100
    assert seen == sorted(seen)


def test_a_reader_never_sees_an_entry_that_was_taken_back(tmp_path: Path) -> None:
    written, head = fill(tmp_path, 1), Head(tmp_path)
    position = written.append(entry(2, "taken back"))
    head.publish(1)
    reader = LogReader(tmp_path, 0)
    assert [one.id for one in reader.entries()] == [1]
    written.take_back(position, 1)
    written.append(entry(2, "kept, other"))
    head.publish(2)
    assert list(reader.entries()) == [entry(2, "kept, other")]


def test_a_reader_goes_through_segments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, head = Log(tmp_path), Head(tmp_path)
    monkeypatch.setattr(log, "SEGMENT_BYTES", 500)
    reader = LogReader(tmp_path / "log", 3)
    for number in range(1, 31):
        if written.full:
            written.rotate()
        written.append(entry(number))
        head.publish(number)
    assert len(log.segments(tmp_path / "log")) > 5
    assert [one.id for one in reader.entries()] == list(range(4, 31))
    written.prune(20)
    assert [one.id for one in LogReader(tmp_path, 20).entries()] == list(range(21, 31))
    with pytest.raises(LogGap, match="newest checkpoint"):
        list(LogReader(tmp_path, 2).entries())
    assert written.first <= 20


def test_a_reader_finds_a_gap_after_the_log_started_anew(tmp_path: Path) -> None:
    written, head = fill(tmp_path, 1, 2), Head(tmp_path)
    head.publish(2)
    reader = LogReader(tmp_path, 0)
    assert len(list(reader.entries())) == 2
    written.reset(3)
    head.publish(3)
    with pytest.raises(LogGap):
        list(reader.entries())
    written.append(entry(4))
    head.publish(4)
    with pytest.raises(LogGap):
        list(reader.entries())


def test_a_statement_with_a_line_break_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="line break"):
        Log(tmp_path).append(Entry(1, 0, "", [], Change(added={"": frozenset({f'{A}\n"x"'})})))


def test_the_head_of_nothing_is_zero(tmp_path: Path) -> None:
    assert read_head(tmp_path) == 0
