"""Whatever happens to a name below a watched folder is told, in real folders, by the kernel or by looking."""

from __future__ import annotations

import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from graphtide import inotify, watch
from graphtide.inotify import Event, WatchLimit
from graphtide.tree import Root, Tree
from graphtide.watch import Watch


class Heard:
    """What a watch told, by name relative to its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.told = folder, list[tuple[str, str]]()
        self._news = threading.Condition()

    def __call__(self, kind: str, path: str) -> None:
        with self._news:
            self.told.append((kind, os.path.relpath(path, self.folder)))
            self._news.notify_all()

    def wait(self, *wanted: tuple[str, str], seconds: float = 5.0) -> None:
        with self._news:
            arrived = self._news.wait_for(lambda: all(one in self.told for one in wanted), seconds)
        assert arrived, f"waited for {wanted}, heard {self.told}"

    def clear(self) -> None:
        with self._news:
            self.told.clear()


Begin = Callable[..., Heard]


@pytest.fixture(params=["events", "polling"])
def begin(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Begin]:
    running: list[Watch] = []

    def start(*roots: Root) -> Heard:
        heard = Heard(tmp_path)
        poll = request.param == "polling"
        running.append(
            Watch(roots or [Root(str(tmp_path))], heard, lambda path: "skip" in path, poll_seconds=0.05, poll=poll)
        )
        return heard

    yield start
    for one in running:
        one.close()


@pytest.fixture
def events(tmp_path: Path) -> Iterator[Begin]:
    running: list[Watch] = []

    def start(*roots: Root) -> Heard:
        heard = Heard(tmp_path)
        running.append(Watch(roots or [Root(str(tmp_path))], heard, lambda path: False, poll_seconds=60))
        return heard

    yield start
    for one in running:
        one.close()


def either(heard: Heard, name: str, *kinds: str) -> None:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if any((kind, name) in heard.told for kind in kinds):
            return
        time.sleep(0.005)
    raise AssertionError(f"waited for {kinds} of {name}, heard {heard.told}")


def test_files_that_were_there_are_found_before_the_watch_returns(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.csv").write_text("1")
    (tmp_path / "skip").mkdir()
    (tmp_path / "skip" / "y.csv").write_text("1")
    assert begin().told == [("found", "a/x.csv")]


def test_a_created_a_changed_and_a_deleted_file_are_told(begin: Begin, tmp_path: Path) -> None:
    heard = begin()
    (tmp_path / "x.csv").write_text("1")
    either(heard, "x.csv", "closed", "touched")
    heard.clear()
    (tmp_path / "x.csv").write_text("22")
    either(heard, "x.csv", "closed", "touched")
    (tmp_path / "x.csv").unlink()
    heard.wait(("gone", "x.csv"))


def test_a_renamed_file_is_gone_here_and_new_there(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1")
    heard = begin()
    (tmp_path / "x.csv").rename(tmp_path / "y.csv")
    heard.wait(("gone", "x.csv"))
    either(heard, "y.csv", "moved", "touched")


def test_a_file_replaced_by_one_of_the_same_size_and_mtime_is_told(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1")
    before = os.stat(tmp_path / "x.csv")
    heard = begin()
    (tmp_path / "x.tmp").write_text("2")
    os.utime(tmp_path / "x.tmp", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(tmp_path / "x.tmp", tmp_path / "x.csv")
    either(heard, "x.csv", "moved", "touched")


def test_a_folder_made_with_files_at_once_is_told_whole(begin: Begin, tmp_path: Path) -> None:
    heard = begin()
    for number in range(20):
        deep = tmp_path / f"d{number}" / "e" / "f"
        deep.mkdir(parents=True)
        (deep / "x.csv").write_text("1")
    for number in range(20):
        either(heard, f"d{number}/e/f/x.csv", "touched", "closed")


def test_a_moved_folder_is_gone_here_and_new_there_and_goes_on_being_watched(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "old" / "in").mkdir(parents=True)
    (tmp_path / "old" / "in" / "x.csv").write_text("1")
    heard = begin()
    (tmp_path / "old").rename(tmp_path / "new")
    heard.wait(("gone", "old/in/x.csv"), ("touched", "new/in/x.csv"))
    heard.clear()
    (tmp_path / "new" / "in" / "y.csv").write_text("1")
    either(heard, "new/in/y.csv", "touched", "closed")


def test_a_folder_moved_in_from_elsewhere_is_told_and_watched(
    begin: Begin, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere") / "d"
    elsewhere.mkdir()
    (elsewhere / "x.csv").write_text("1")
    heard = begin()
    elsewhere.rename(tmp_path / "d")
    heard.wait(("touched", "d/x.csv"))
    (tmp_path / "d" / "y.csv").write_text("1")
    either(heard, "d/y.csv", "touched", "closed")


def test_a_removed_folder_tells_every_file_that_was_in_it(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "d" / "e").mkdir(parents=True)
    for name in ("d/x.csv", "d/e/y.csv"):
        (tmp_path / name).write_text("1")
    heard = begin()
    shutil.rmtree(tmp_path / "d")
    heard.wait(("gone", "d/x.csv"), ("gone", "d/e/y.csv"))


def test_a_root_that_disappears_and_comes_back_is_lost_and_watched_again(begin: Begin, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "x.csv").write_text("1")
    heard = begin(Root(str(root)))
    root.rename(tmp_path / "away")
    heard.wait(("lost", "root"))
    assert ("gone", "root/x.csv") not in heard.told
    heard.clear()
    (tmp_path / "away").rename(root)
    heard.wait(("lost", "root"))
    (root / "y.csv").write_text("1")
    either(heard, "root/y.csv", "touched", "closed")


def test_a_root_that_does_not_exist_yet_is_watched_once_it_does(begin: Begin, tmp_path: Path) -> None:
    root = tmp_path / "later" / "root"
    heard = begin(Root(str(root)))
    root.mkdir(parents=True)
    heard.wait(("lost", "later/root"))
    (root / "x.csv").write_text("1")
    either(heard, "later/root/x.csv", "touched", "closed")


def test_a_change_of_the_file_a_link_leads_to_is_told_of_the_link(
    begin: Begin, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "one.csv").write_text("1")
    (elsewhere / "two.csv").write_text("2")
    (tmp_path / "x.csv").symlink_to(elsewhere / "one.csv")
    heard = begin()
    (elsewhere / "one.csv").write_text("11")
    either(heard, "x.csv", "touched", "closed")
    heard.clear()
    (tmp_path / "new").symlink_to(elsewhere / "two.csv")
    os.replace(tmp_path / "new", tmp_path / "x.csv")
    either(heard, "x.csv", "touched", "moved")
    time.sleep(0.1)
    heard.clear()
    (elsewhere / "two.csv").write_text("22")
    either(heard, "x.csv", "touched", "closed")


def test_a_link_through_a_link_that_is_switched_is_told(begin: Begin, tmp_path: Path) -> None:
    # As a mounted Kubernetes ConfigMap is updated: x.csv -> ..data/x.csv, ..data -> v1, then -> v2.
    (tmp_path / "root").mkdir()
    for version in ("v1", "v2"):
        (tmp_path / version).mkdir()
        (tmp_path / version / "x.csv").write_text(version)
    (tmp_path / "data").symlink_to("v1")
    (tmp_path / "root" / "x.csv").symlink_to("../data/x.csv")
    heard = begin(Root(str(tmp_path / "root")))
    (tmp_path / "switch").symlink_to("v2")
    os.replace(tmp_path / "switch", tmp_path / "data")
    either(heard, "root/x.csv", "touched", "moved")
    time.sleep(0.1)
    heard.clear()
    (tmp_path / "v2" / "x.csv").write_text("v3")
    either(heard, "root/x.csv", "touched", "closed")


def test_a_link_to_a_folder_is_watched_and_one_that_leads_back_has_an_end(
    begin: Begin, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    (tmp_path / "there").symlink_to(elsewhere)
    heard = begin()
    (elsewhere / "x.csv").write_text("1")
    either(heard, "there/x.csv", "touched", "closed")
    (tmp_path / "there").unlink()
    heard.wait(("gone", "there/x.csv"))


def test_only_a_deep_root_tells_what_is_below_its_folders(begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    heard = begin(Root(str(tmp_path), deep=False))
    (tmp_path / "d" / "x.csv").write_text("1")
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "x.csv").write_text("1")
    (tmp_path / "y.csv").write_text("1")
    either(heard, "y.csv", "touched", "closed")
    assert not [name for _, name in heard.told if "x.csv" in name]


def test_a_folder_that_is_skipped_is_not_watched(begin: Begin, tmp_path: Path) -> None:
    heard = begin()
    (tmp_path / "skip").mkdir()
    (tmp_path / "skip" / "x.csv").write_text("1")
    (tmp_path / "y.csv").write_text("1")
    either(heard, "y.csv", "touched", "closed")
    assert not [name for _, name in heard.told if name.startswith("skip")]


def test_a_closed_file_and_a_file_renamed_over_another_are_told_as_such(events: Begin, tmp_path: Path) -> None:
    heard = events()
    with (tmp_path / "x.csv").open("w") as file:
        file.write("1")
        file.flush()
        heard.wait(("touched", "x.csv"))
        assert ("closed", "x.csv") not in heard.told
    heard.wait(("closed", "x.csv"))
    (tmp_path / "x.tmp").write_text("2")
    os.replace(tmp_path / "x.tmp", tmp_path / "x.csv")
    heard.wait(("moved", "x.csv"))


def test_reading_a_file_tells_nothing(events: Begin, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("1")
    heard = events()
    heard.clear()
    (tmp_path / "x.csv").read_text()
    (tmp_path / "y.csv").write_text("1")
    heard.wait(("closed", "y.csv"))
    assert not [name for _, name in heard.told if name == "x.csv"]


def test_after_an_overflow_of_the_queue_everything_is_looked_at_again_and_watched(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_text("1")
    heard = Heard(tmp_path)
    tree = Tree(heard, lambda path: False, lambda root, reason: None)
    tree.add(Root(str(tmp_path)))
    heard.clear()
    with open("/proc/sys/fs/inotify/max_queued_events") as file:
        most = int(file.read())
    for number in range(most // 2 + 10):  # create and delete do not coalesce: nobody reads while the queue fills
        (tmp_path / f"{number}").touch()
        (tmp_path / f"{number}").unlink()
    (tmp_path / "old.csv").unlink()
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "new.csv").write_text("1")
    end = time.monotonic() + 20
    while ("lost", ".") not in heard.told and time.monotonic() < end:
        tree.work(0.1)
    heard.wait(("gone", "old.csv"), ("lost", "."))
    heard.clear()
    (tmp_path / "d" / "new.csv").write_text("2")
    tree.work(1)
    assert ("closed", "d/new.csv") in heard.told
    tree.close()


def test_a_root_over_the_watch_limit_is_polled_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: inotify.Inotify, folder: str) -> int:
        raise WatchLimit("the watch limit is reached (fs.inotify.max_user_watches = 7)", folder)

    monkeypatch.setattr(inotify.Inotify, "add", full)
    heard = Heard(tmp_path)
    running = Watch([Root(str(tmp_path))], heard, lambda path: False, poll_seconds=0.05)
    mode = running.modes[str(tmp_path)]
    assert (mode.mode, mode.reason) == ("polling", "the watch limit is reached (fs.inotify.max_user_watches = 7)")
    (tmp_path / "x.csv").write_text("1")
    heard.wait(("touched", "x.csv"))
    running.close()


def test_a_root_that_meets_the_watch_limit_later_is_polled_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard(tmp_path)
    running = Watch([Root(str(tmp_path))], heard, lambda path: False, poll_seconds=0.05)
    add = inotify.Inotify.add

    def nearly_full(self: inotify.Inotify, folder: str) -> int:
        if folder.endswith("one-more"):
            raise WatchLimit("the watch limit is reached", folder)
        return add(self, folder)

    monkeypatch.setattr(inotify.Inotify, "add", nearly_full)
    (tmp_path / "one-more").mkdir()
    heard.wait(("lost", "."))
    assert running.modes[str(tmp_path)].mode == "polling"
    (tmp_path / "one-more" / "x.csv").write_text("1")
    heard.wait(("touched", "one-more/x.csv"))
    running.close()


def test_a_root_on_a_network_mount_is_polled_and_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "on_a_network", lambda path: "nfs4")
    running = Watch([Root(str(tmp_path))], Heard(tmp_path), lambda path: False, poll_seconds=60)
    assert running.modes[str(tmp_path)].reason == f"{tmp_path} is on a nfs4 mount, which sends no events"
    running.close()


def test_an_event_of_a_folder_no_longer_watched_is_nothing(tmp_path: Path) -> None:
    tree = Tree(Heard(tmp_path), lambda path: False, lambda root, reason: None)
    tree.add(Root(str(tmp_path)))
    tree._on(Event(77777, inotify.CREATE, "x"))
    tree._on(Event(77777, inotify.IGNORED, ""))
    tree.close()


def test_an_unmounted_folder_is_lost_and_deletes_nothing(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.csv").write_text("1")
    heard = Heard(tmp_path)
    tree = Tree(heard, lambda path: False, lambda root, reason: None)
    tree.add(Root(str(tmp_path)))
    tree._on(Event(tree._wd[str(tmp_path / "d")], inotify.IGNORED, ""))
    assert heard.told == [("found", "d/x.csv"), ("lost", "d")]
    tree.close()
