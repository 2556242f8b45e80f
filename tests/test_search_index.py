"""The search index against real stores: what a person types finds the thing they mean, whatever happened before."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import RdfFormat, Store

from sparql.index.folding import fold, humps, tokens
from sparql.index.following import exact
from sparql.index.importance import top
from sparql.index.search import Search, rows, search
from sparql.log import Change, Entry

E = "https://e.example/"
RDF, RDFS = "http://www.w3.org/1999/02/22-rdf-syntax-ns#", "http://www.w3.org/2000/01/rdf-schema#"
PREFIXES = f"@prefix : <{E}> . @prefix rdfs: <{RDFS}> . @prefix schema: <https://schema.org/> .\n"


def index(turtle: str) -> sqlite3.Connection:
    store = Store()
    store.load(input=(PREFIXES + turtle).encode(), format=RdfFormat.TURTLE)
    db = sqlite3.connect(":memory:")
    Search().rebuild(db, store)
    return db


def found(db: sqlite3.Connection, text: str, of_class: str | None = None) -> list[str]:
    return [hit.iri.removeprefix(E) for hit in search(db, text, of_class=of_class).hits]


SHOP = """
:pay a :Service ; rdfs:label "Payment" ; :email "ann@e.example" .
:gate a :Service ; rdfs:label "Payment gateway" ; :note "takes cards" .
:old a :Service ; rdfs:label "Old payment gateway" .
:ledger a :Database ; rdfs:label "Ledger"@en, "Hauptbuch"@de ; :note "what the payment gateway wrote" .
:x1 :uses :pay . :x2 :uses :pay . :x3 :uses :gate .
:Service rdfs:subClassOf :Asset . :Database rdfs:subClassOf :Asset .
"""


def test_an_exact_name_comes_before_a_prefix_before_words_and_labels_before_other_literals() -> None:
    db = index(SHOP)
    assert found(db, "payment")[:4] == ["pay", "gate", "old", "ledger"]
    kinds = [hit.match.kind for hit in search(db, "payment").hits if hit.match]
    assert kinds == ["exact", "prefix", "token", "token"]


def test_the_last_word_may_be_unfinished_and_words_may_come_from_different_literals() -> None:
    db = index(SHOP)
    assert found(db, "gateway pay") == ["gate", "old", "ledger"]
    assert found(db, "payment car") == ["gate"]


def test_a_hit_says_which_literal_matched_and_marks_it_without_markup() -> None:
    hit = search(index(':a rdfs:label "Ann" ; :note "<b>the</b> payment Gateway, old" .'), "payment gatew").hits[0]
    assert hit.label == "Ann"
    assert hit.match is not None and hit.match.property == E + "note"
    assert "".join(text for text, _ in hit.match.parts) == "<b>the</b> payment Gateway, old"


def test_a_misspelt_word_finds_what_is_spelt_like_it_when_nothing_else_is_found() -> None:
    db = index(SHOP)
    assert found(db, "paymnet")[0] == "pay"
    assert "ledger" in found(db, "legder")
    assert search(db, "paymnet").hits[0].match.kind == "fuzzy"  # type: ignore[union-attr]
    assert found(db, "zzzz") == []


def test_a_class_keeps_its_own_and_those_of_its_subclasses() -> None:
    db = index(SHOP)
    assert found(db, "payment", E + "Database") == ["ledger"]
    assert found(db, "payment", E + "Asset") == ["pay", "gate", "old", "ledger"]
    assert found(db, "", E + "Service") == ["pay", "gate", "old"]
    assert found(db, "payment", E + "None") == []


@pytest.mark.parametrize(
    ("label", "typed"),
    [("Zürich Café", "zurich cafe"), ("Łódź", "lodz"), ("Straße", "strasse"), ("ЁЛКА", "елка"), ("Ａｐｐ１", "app1"),
     ("東京都庁", "京都"), ("支付网关服务", "网关"), ("결제 서비스", "서비"),
     ("บริการชำระเงิน", "ชำระ"), ("हिन्दी सेवा", "हिन्दी"),
     ("PaymentService", "service"), ("order_item-v2", "item v2"), ("خِدْمَة", "خدمة")],
)  # fmt: skip
def test_accents_case_width_and_scripts_without_blanks_are_no_obstacle(label: str, typed: str) -> None:
    assert found(index(f':a rdfs:label "{label}" .'), typed) == ["a"]


def test_a_thing_without_a_label_is_found_by_the_end_of_its_iri_and_by_the_whole() -> None:
    db = index("<https://e.example/team/blue%20sky> :p 1 . :other rdfs:label 'Other' .")
    assert found(db, "blue sk") == ["team/blue%20sky"]
    assert found(db, E + "team/blue%20sky")[0] == "team/blue%20sky"
    assert search(db, "blue").hits[0].label == "blue sky"


@pytest.mark.parametrize(
    "text",
    ['"', "'", "a OR", "NEAR(a b)", "name : x", "*", "^", "(", ")", "a AND NOT b", "-a", "\x00", "\ue000", "{a}", "k:*",
     "☃", "😀", "a" * 10_000, "% _", "'; DROP TABLE search_entity; --", "\ud800", "\\", "a\u0301" * 300],
)  # fmt: skip
def test_what_means_something_to_the_engine_means_nothing_from_a_person(text: str) -> None:
    db = index(SHOP)
    search(db, text)
    search(db, text, of_class=text)
    assert found(db, "payment")


def test_pages_hold_each_hit_once_also_when_the_graph_changes_between_them() -> None:
    turtle = "".join(f':n{n} rdfs:label "node {n}" .\n' for n in range(50))
    db = index(turtle)
    seen: list[str] = []
    after = None
    while True:
        page = search(db, "node", limit=7, after=after)
        seen += [hit.iri for hit in page.hits]
        if not page.more:
            break
        after = page.hits[-1].key
    assert len(seen) == len(set(seen)) == page.total == 50


def test_importance_counts_what_joins_nodes_and_sets_vocabulary_apart() -> None:
    db = index(SHOP)
    first = top(db, 3)
    assert [(one.iri.removeprefix(E), one.importance, one.label) for one in first[:2]] == [
        ("pay", 2, "Payment"), ("gate", 1, "Payment gateway"),
    ]  # fmt: skip
    seen, page = [], first[:1]
    while page:
        seen += [one.iri for one in page]
        page = top(db, 2, after=(page[-1].importance, page[-1].iri))
    assert seen == [one.iri for one in top(db, 99)]
    assert {one.iri.removeprefix(E) for one in top(db, 9, vocabulary=True)} >= {"Service", "Database"}


def test_folding_and_humps() -> None:
    assert fold("ÀÉÎ ﬁ") == "aei fi"
    assert tokens("HTTPServer_v2, 東京!") == ["httpserver", "v2", "東", "京"]
    assert humps("HTTPServerV2") == "HTTP Server V 2"


NODES = [f"<{E}n{n}>" for n in range(6)]
CLASSES = [f"<{E}C{n}>" for n in range(3)]
STATEMENTS = st.one_of(
    st.builds("{} <{}p> {}".format, st.sampled_from(NODES), st.just(E), st.sampled_from(NODES)),
    st.builds("{} <{}type> {}".format, st.sampled_from(NODES), st.just(RDF), st.sampled_from(CLASSES)),
    st.builds("{} <{}subClassOf> {}".format, st.sampled_from(CLASSES), st.just(RDFS), st.sampled_from(CLASSES)),
    st.builds('{} <{}label> "{}"'.format, st.sampled_from(NODES + CLASSES), st.just(RDFS),
              st.sampled_from(["Ann", "Bob B", "É", "東京", "FooBar", "x y"])),
    st.builds('{} <{}q> "{}"'.format, st.sampled_from(NODES), st.just(E), st.sampled_from(["Ann", "one two", "3"])),
)  # fmt: skip


@settings(max_examples=40)
@given(st.lists(st.tuples(st.frozensets(STATEMENTS, max_size=8), st.frozensets(STATEMENTS, max_size=8)), max_size=8))
def test_after_any_deltas_the_index_equals_one_made_anew(deltas: list[tuple[frozenset[str], frozenset[str]]]) -> None:
    store, db, follower = Store(), sqlite3.connect(":memory:"), Search()
    follower.rebuild(db, store)
    for removed, added in deltas:
        # Also what was not there is removed, and what is there is added: the index does not count on exact deltas.
        change = Change({"": removed} if removed else {}, {"": added} if added else {})
        change.apply(store)
        follower.apply(db, SimpleNamespace(change=change), store)
    anew = sqlite3.connect(":memory:")
    follower.rebuild(anew, store)
    assert rows(db) == rows(anew)


@settings(max_examples=40)
@given(st.lists(st.tuples(st.frozensets(STATEMENTS, max_size=8), st.frozensets(STATEMENTS, max_size=8)), max_size=8))
def test_after_exact_deltas_too_and_then_who_is_only_pointed_to_is_not_read_again(
    deltas: list[tuple[frozenset[str], frozenset[str]]],
) -> None:
    store, db, follower = Store(), sqlite3.connect(":memory:"), Search()
    follower.rebuild(db, store)
    for n, (removed, added) in enumerate(deltas):
        entry = exact(Entry(n + 1, n, "", (), Change({"": removed}, {"": added})), store)
        entry.change.apply(store)
        follower.apply(db, entry, store)
    anew = sqlite3.connect(":memory:")
    follower.rebuild(anew, store)
    assert rows(db) == rows(anew)


def test_an_index_of_a_store_on_disk_is_that_of_one_in_memory(tmp_path: Path) -> None:
    turtle = SHOP + "".join(
        f':n{n} :uses :n{n * 7 % 40}, :pay ; a :Service, :C{n % 3} ; :q {n}, "x{n}"@de .\n' for n in range(40)
    )
    turtle += ":a rdfs:subPropertyOf :b . [] :uses :pay . :self :uses :self . :only :sees <urn:x:thing> ."
    disk, memory = Store(str(tmp_path / "store")), Store()
    built = []
    for store in (disk, memory):
        store.load(input=(PREFIXES + turtle).encode(), format=RdfFormat.TURTLE)
        db = sqlite3.connect(":memory:")
        Search().rebuild(db, store)
        built.append(rows(db))
    # What is read in two passes, where the statements of a node come together, is what is looked up node by node.
    assert built[0] == built[1]
