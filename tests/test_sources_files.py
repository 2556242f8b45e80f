from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sources.content import has_writer
from sources.files import FilesSource
from sources.patterns import Pattern, escape
from sources.record import Moved, ReadError, ScopedSource, SourceError

PEOPLE = "login,name,team\nada,Ada,Web\nbo,Bo,Web\n"


def source(root: Path, *paths: str, **options) -> FilesSource:
    return FilesSource("people", root, list(paths), **options)


def keys(source: FilesSource) -> list[str]:
    return [record.key for batch in source.read(None) for record in batch.records]


def put(root: Path, path: str, text: str | bytes) -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return file


def test_a_files_source_is_a_scoped_source(tmp_path):
    assert isinstance(source(tmp_path, "people.csv"), ScopedSource)


def test_a_literal_path_keys_records_by_their_row_alone(tmp_path):
    put(tmp_path, "people.csv", PEOPLE)
    assert keys(source(tmp_path, "people.csv", key="login")) == ["ada", "bo"]


def test_a_pattern_puts_the_path_before_the_key(tmp_path):
    put(tmp_path, "tables/a.csv", PEOPLE)
    put(tmp_path, "tables/deep/b.csv", "login\ncy\n")
    assert keys(source(tmp_path, "tables/*.csv", key="login")) == ["tables/a.csv/ada", "tables/a.csv/bo"]
    assert keys(source(tmp_path, "tables/**/*.csv", key="login"))[-1] == "tables/deep/b.csv/cy"


def test_a_folder_is_every_file_below_it(tmp_path):
    put(tmp_path, "tables 1/a.csv", "id\n1\n")
    put(tmp_path, "tables 1/deep/b.json", '{"id": 2}')
    put(tmp_path, "tables 1/README.md", "no data")
    for folder in ("tables 1", "tables 1/", "./tables 1", "tables*/"):
        assert keys(source(tmp_path, folder, key="id")) == ["tables 1/a.csv/1", "tables 1/deep/b.json/2"]
    assert keys(source(tmp_path, ".", key="id")) == ["tables 1/a.csv/1", "tables 1/deep/b.json/2"]


def test_several_literal_paths_put_the_path_before_the_key(tmp_path):
    put(tmp_path, "a.csv", "id\n1\n")
    put(tmp_path, "b.csv", "id\n1\n")
    assert keys(source(tmp_path, "a.csv", "b.csv", key="id")) == ["a.csv/1", "b.csv/1"]


def test_a_locator_is_the_line_where_the_row_begins(tmp_path):
    put(tmp_path, "people.csv", 'login,note\nada,"two\nlines"\n\nbo,\n')
    (batch,) = source(tmp_path, "people.csv", key="login").read(None)
    assert [(r.locator, r.data["note"]) for r in batch.records] == [
        ("people.csv:2", "two\nlines"),
        ("people.csv:5", ""),
    ]


def test_several_key_columns_are_joined_so_that_no_two_pairs_meet(tmp_path):
    put(tmp_path, "x.csv", "a,b\n1/2,3\n1,2/3\n1%2F2,3\n")
    assert keys(source(tmp_path, "x.csv", key=["a", "b"])) == ["1%2F2/3", "1/2%2F3", "1%252F2/3"]


def test_rows_without_a_key_setting_are_keyed_by_position_with_a_warning(tmp_path):
    put(tmp_path, "people.csv", PEOPLE)
    (batch,) = source(tmp_path, "people.csv").read(None)
    assert [r.key for r in batch.records] == ["1", "2"]
    assert batch.notes == (
        "people.csv: its records are keyed by their position, so that inserting one changes every one after it; "
        "set key",
    )


def test_a_row_without_its_key_is_a_problem_by_itself_and_the_rest_goes_on(tmp_path):
    put(tmp_path, "people.csv", "login,name\nada,Ada\n,Nobody\nbo,Bo\n")
    (batch,) = source(tmp_path, "people.csv", key="login").read(None)
    assert [(r.key, r.locator, r.problem) for r in batch.records] == [
        ("ada", "people.csv:2", ""),
        (
            "@3",
            "people.csv:3",
            "its key 'login' is empty. Give the row a value there, or choose another key.",
        ),
        ("bo", "people.csv:4", ""),
    ]


def test_a_key_column_that_is_not_there_names_the_columns_that_are(tmp_path):
    put(tmp_path, "people.csv", PEOPLE)
    with pytest.raises(ReadError) as wrong:
        source(tmp_path, "people.csv", key="id").read_scope("people.csv", None)
    assert str(wrong.value) == (
        "people.csv:1: has no column 'id' to be the key; it has 'login', 'name', 'team'. Correct key."
    )


def test_a_cursor_skips_a_file_until_its_bytes_or_the_options_change(tmp_path):
    file = put(tmp_path, "people.csv", PEOPLE)
    people = source(tmp_path, "people.csv", key="login")
    cursor = people.read_scope("people.csv", None).cursor
    assert people.read_scope("people.csv", cursor) is None
    assert source(tmp_path, "people.csv", key="name").read_scope("people.csv", cursor) is not None
    os.utime(file)
    assert people.read_scope("people.csv", cursor) is None


def test_a_replacement_of_the_same_size_and_time_is_seen(tmp_path):
    file = put(tmp_path, "people.csv", PEOPLE)
    people = source(tmp_path, "people.csv", key="login")
    cursor = people.read_scope("people.csv", None).cursor
    before = file.stat()
    put(tmp_path, "new.csv", PEOPLE.replace("Ada", "Eve"))
    os.utime(tmp_path / "new.csv", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(tmp_path / "new.csv", file)
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert [r.data["name"] for r in people.read_scope("people.csv", cursor).records] == ["Eve", "Bo"]


def test_a_missing_file_is_an_empty_complete_batch(tmp_path):
    batch = source(tmp_path, "people.csv").read_scope("people.csv", "some cursor")
    assert (list(batch.records), batch.complete, batch.cursor) == ([], True, None)
    assert batch.notes == ("people.csv: there is no such file",)


def test_a_missing_folder_is_an_error_and_not_a_deletion(tmp_path):
    with pytest.raises(SourceError, match="No such file"):
        source(tmp_path, "tables/*.csv").scopes()
    with pytest.raises(SourceError, match="No such file"):
        source(tmp_path / "gone", "a.csv").read_scope("a.csv", None)
    with pytest.raises(SourceError, match="No such file"):
        source(tmp_path, "data/a.csv").scopes()


def test_what_a_source_names_but_does_not_find_can_be_asked(tmp_path):
    put(tmp_path, "people.csv", PEOPLE)
    assert source(tmp_path, "people.csv", "poeple.csv", "*.xml").missing() == ["poeple.csv", "*.xml"]


def test_a_file_replaced_while_read_is_moved(tmp_path):
    put(tmp_path, "people.csv", PEOPLE)
    records = iter(source(tmp_path, "people.csv", key="login").read_scope("people.csv", None).records)
    next(records)
    put(tmp_path, "new.csv", PEOPLE)
    os.replace(tmp_path / "new.csv", tmp_path / "people.csv")
    with pytest.raises(Moved, match="people.csv: changed while it was read"):
        list(records)


def test_a_file_rewritten_in_place_while_read_is_moved_and_not_broken(tmp_path):
    rows = "".join(f"{n},{'x' * 100}\n" for n in range(50_000))
    file = put(tmp_path, "big.csv", "id,text\n" + rows)
    records = iter(source(tmp_path, "big.csv", key="id").read_scope("big.csv", None).records)
    next(records)
    file.write_text("id,text\n" + rows.replace(",x", ",x,y", 40_000))
    with pytest.raises(Moved):
        list(records)


def test_a_file_appended_to_between_two_iterations_is_moved(tmp_path):
    file = put(tmp_path, "people.json", '[{"login": "ada"}]')
    batch = source(tmp_path, "people.json", key="login").read_scope("people.json", None)
    assert [r.key for r in batch.records] == ["ada"]
    assert [r.key for r in batch.records] == ["ada"]
    file.write_text('[{"login": "ada"}, {"login": "bo"}]')
    with pytest.raises(Moved):
        list(batch.records)


def test_one_broken_file_does_not_stop_the_others(tmp_path):
    put(tmp_path, "a.csv", "id\n1\n")
    put(tmp_path, "b.csv", "id,x\n1\n")
    put(tmp_path, "c.csv", b"id\n\xff\n")
    put(tmp_path, "d.csv", "id\n1\n")
    good, bad = [], []
    for batch in source(tmp_path, "*.csv", key="id").read(None):
        try:
            good += [record.key for record in batch.records]
        except ReadError as wrong:
            bad.append(wrong.locator)
    assert (good, bad) == (["a.csv/1", "d.csv/1"], ["b.csv:2", "c.csv:2"])


def test_batches_that_wait_hold_no_file_open(tmp_path):
    for name in ("a.csv", "b.jsonl", "c.xml", "d.json", "e.ttl"):
        put(tmp_path, name, {"csv": "id\n1\n", "ttl": "", "xml": "<r><a/></r>"}.get(name[2:], '{"id": 1}'))
    opened = len(os.listdir("/proc/self/fd"))
    batches = list(source(tmp_path, "*").read(None))
    assert len(os.listdir("/proc/self/fd")) <= opened
    assert [len(list(batch.records)) for batch in batches] == [1, 1, 1, 1, 0]


def test_a_named_pipe_in_place_of_a_file_is_refused_and_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "people.csv")
    with pytest.raises(ReadError, match="is not a regular file"):
        source(tmp_path, "people.csv").read_scope("people.csv", None)


def test_a_link_to_nothing_is_an_error_and_not_a_deletion(tmp_path):
    (tmp_path / "people.csv").symlink_to(tmp_path / "gone.csv")
    with pytest.raises(ReadError, match="is a link to .* which is not there"):
        source(tmp_path, "people.csv").read_scope("people.csv", None)


def test_a_file_over_the_limit_is_not_opened(tmp_path):
    with open(tmp_path / "big.csv", "wb") as file:
        file.truncate(3 << 30)
    with pytest.raises(ReadError) as wrong:
        source(tmp_path, "big.csv").read_scope("big.csv", None)
    assert str(wrong.value) == (
        "big.csv: is 3.0 GB, over max_file_bytes (1.0 GB). Split it, or raise max_file_bytes under [limits]."
    )


def test_a_path_belongs_to_the_source_whether_or_not_a_file_is_there(tmp_path):
    people = source(tmp_path, "tables/**/*.csv", "one.json")
    assert people.scope_of(tmp_path / "tables/deep/x.csv") == "tables/deep/x.csv"
    assert people.scope_of("one.json") == "one.json"
    assert people.scope_of(tmp_path / "tables/.hidden/x.csv") is None
    assert people.scope_of(tmp_path / "tables/x.tsv") is None
    assert people.scope_of(tmp_path.parent / "x.csv") is None


def test_a_pattern_takes_nothing_hidden_secret_installed_or_linked_from_outside(tmp_path):
    root = tmp_path / "root"
    for path in ("a.csv", ".b.csv", ".git/c.csv", "node_modules/d.csv", "secrets.csv", "e/f.csv", "README.md"):
        put(root, path, "id\n1\n")
    outside = put(tmp_path, "outside.csv", "id\n1\n")
    (root / "link.csv").symlink_to(outside)
    (root / "inner.csv").symlink_to(root / "a.csv")
    (root / "e" / "loop").symlink_to(root)
    assert source(root, "**/*").scopes() == ["a.csv", "e/f.csv", "inner.csv"]
    assert source(root, "secrets.csv").scopes() == ["secrets.csv"]


def test_a_path_with_magic_characters_can_be_named(tmp_path):
    put(tmp_path, "data[1]*.csv", "id\n1\n")
    literal = escape("data[1]*.csv")
    assert keys(source(tmp_path, literal, key="id")) == ["1"]
    assert Pattern("data[1]*.csv").literal is None


@given(st.text("ab[]*?/.", min_size=1).filter(lambda text: not text.startswith("/")))
def test_an_escaped_path_is_literal_whatever_it_holds(text):
    assert Pattern(escape(text)).literal == os.path.normpath(text)


def test_options_that_cannot_be_meant_are_refused_at_once(tmp_path):
    for options in ({"format": "docx"}, {"delimiter": ";;"}, {"record_path": "a[b"}):
        with pytest.raises(ValueError):
            source(tmp_path, "x.json", **options)
    with pytest.raises(ValueError, match="paths is empty"):
        source(tmp_path)


def test_a_writer_is_seen_where_the_system_can_tell(tmp_path):
    file = put(tmp_path, "people.csv", PEOPLE)
    if has_writer(file) is None:
        pytest.skip("this file system gives no leases")
    assert has_writer(file) is False
    with open(file, "a"):
        assert has_writer(file) is True
    assert has_writer(file) is False
    assert has_writer(tmp_path / "gone.csv") is None


def test_a_link_out_of_the_folder_says_nothing_however_it_is_read(tmp_path: Path) -> None:
    root, outside = tmp_path / "in", tmp_path / "out"
    (root / "data").mkdir(parents=True)
    outside.mkdir()
    for folder in (root / "data", outside):
        (folder / "a.csv").write_text("id\n1\n")
    (root / "data" / "file.csv").symlink_to(outside / "a.csv")
    (root / "data" / "folder").symlink_to(outside)
    (root / "data" / "inside.csv").symlink_to("a.csv")
    source = FilesSource("t", root, ["data/**/*.csv"], key="id")
    assert source.scopes() == ["data/a.csv", "data/inside.csv"]
    for scope, count in (("data/file.csv", 0), ("data/folder/a.csv", 0), ("data/inside.csv", 1), ("data/a.csv", 1)):
        batch = source.read_scope(scope, None)
        assert batch is not None and len(list(batch.records)) == count, scope
    named = FilesSource("t", root, ["data/file.csv"], key="id").read_scope("data/file.csv", None)
    assert named is not None and len(list(named.records)) == 1
