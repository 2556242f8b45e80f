from __future__ import annotations

import json
import random
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sources import blank
from sources.files import FilesSource
from sources.limits import Limits
from sources.record import ReadError

E = "http://e/"


def read(folder, name: str, text: str, **options):
    (folder / name).write_text(text)
    source = FilesSource("s", folder, [name], skolem="http://s/", **options)
    batch = source.read_scope(name, None)
    return list(batch.records), batch.notes


def said(folder, text: str, name: str = "x.ttl", **options) -> dict[str, list[str]]:
    return {r.key: r.data["statements"] for r in read(folder, name, text, **options)[0]}


TURTLE = """@prefix e: <http://e/> .
e:a e:name "A"@en ; e:at [ e:city "X" ; e:geo [ e:lat 1.5 ] ] .
e:b e:name "B" .
"""


def test_a_record_is_one_subject_with_what_it_says_through_blank_nodes(tmp_path):
    records, notes = read(tmp_path, "x.ttl", TURTLE)
    assert [(r.key, r.locator, r.problem) for r in records] == [
        (E + "a", "x.ttl <http://e/a>", ""),
        (E + "b", "x.ttl <http://e/b>", ""),
    ]
    (geo,) = (line.split()[0] for line in records[0].data["statements"] if "/lat>" in line)
    (at,) = (line.split()[0] for line in records[0].data["statements"] if "/city>" in line)
    assert geo.startswith("<http://s/") and at.startswith("<http://s/")
    assert set(records[0].data["statements"]) == {
        '<http://e/a> <http://e/name> "A"@en',
        f"<http://e/a> <http://e/at> {at}",
        f'{at} <http://e/city> "X"',
        f"{at} <http://e/geo> {geo}",
        f'{geo} <http://e/lat> "1.5"^^<http://www.w3.org/2001/XMLSchema#decimal>',
    }
    assert notes == ()


def test_every_rdf_format_says_the_same(tmp_path):
    triples = '<http://e/a> <http://e/p> "x" .\n<http://e/a> <http://e/q> _:b .\n_:b <http://e/r> <http://e/c> .\n'
    texts = {
        "x.nt": triples,
        "x.ttl": triples,
        "x.nq": triples,
        "x.trig": triples,
        "x.rdf": '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
        '<rdf:Description rdf:about="http://e/a"><e:p>x</e:p><e:q rdf:parseType="Resource">'
        '<e:r rdf:resource="http://e/c"/></e:q></rdf:Description></rdf:RDF>',
        "x.jsonld": json.dumps(
            {"@id": "http://e/a", "http://e/p": "x", "http://e/q": {"http://e/r": {"@id": "http://e/c"}}}
        ),
    }
    found = [said(tmp_path, text, name) for name, text in texts.items()]
    assert len(found[0][E + "a"]) == 3
    assert all(other == found[0] for other in found)


def test_the_graphs_of_a_dataset_are_read_as_one_and_noted(tmp_path):
    text = "<http://e/g> { <http://e/a> <http://e/p> 1 . }\n<http://e/a> <http://e/p> 2 .\n"
    records, notes = read(tmp_path, "x.trig", text)
    assert [len(r.data["statements"]) for r in records] == [2]
    assert notes == ("x.trig: what its 1 named graphs say (<http://e/g>) is read as one graph",)


def test_owl_files_may_declare_plain_entities(tmp_path):
    text = (
        '<!DOCTYPE rdf:RDF [<!ENTITY e "http://e/">]>\n'
        '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
        '<rdf:Description rdf:about="&e;a"><e:p rdf:resource="&e;b"/></rdf:Description></rdf:RDF>'
    )
    assert said(tmp_path, text, "x.owl") == {E + "a": ["<http://e/a> <http://e/p> <http://e/b>"]}


def test_a_mark_before_turtle_is_no_part_of_it(tmp_path):
    assert said(tmp_path, "\ufeff" + TURTLE) == said(tmp_path, TURTLE)


def test_a_base_resolves_relative_iris(tmp_path):
    assert list(said(tmp_path, "<a> <b> <c> .", base="http://base/x/")) == ["http://base/x/a"]


def test_a_blank_node_no_subject_reaches_is_a_record_of_its_own(tmp_path):
    found = said(tmp_path, "@prefix e: <http://e/> .\n[] e:p [ e:q 1 ] .\n_:x e:r _:y . _:y e:r _:x .\n")
    assert sorted(len(statements) for statements in found.values()) == [2, 2]
    assert all(key.startswith("http://s/") for key in found)


def test_a_triple_as_a_value_is_a_problem_of_its_subject_alone(tmp_path):
    records, _ = read(tmp_path, "x.ttl", TURTLE + "e:c e:says <<( e:a e:name 1 )>> .\n")
    assert [(r.key, bool(r.problem)) for r in records] == [(E + "a", False), (E + "b", False), (E + "c", True)]


def test_a_blank_node_shared_by_two_subjects_has_one_name_in_both(tmp_path):
    found = said(tmp_path, "@prefix e: <http://e/> .\ne:a e:p _:x . e:b e:p _:x . _:x e:q 1 .")
    assert len(set(found[E + "a"]) & set(found[E + "b"])) == 1


def test_nodes_of_one_cycle_keep_apart(tmp_path):
    found = said(tmp_path, "@prefix e: <http://e/> .\ne:a e:has _:x, _:y . _:x e:knows _:y . _:y e:knows _:x .")
    assert len(found[E + "a"]) == 4
    assert len({line.split()[0] for line in found[E + "a"]}) == 3


def test_a_long_list_is_one_record_without_recursion(tmp_path):
    found = said(tmp_path, f"@prefix e: <http://e/> .\ne:a e:p ({' '.join(str(n) for n in range(20_000))}) .")
    assert len(found[E + "a"]) == 40_001


def test_a_cycle_too_symmetric_to_name_is_one_error_within_a_bound(tmp_path):
    # A torus looks the same from every node, and no two nodes can be swapped alone.
    side = 12
    lines = [
        f"_:n{x}x{y} <http://e/r> _:n{(x + 1) % side}x{y} . _:n{x}x{y} <http://e/r> _:n{x}x{(y + 1) % side} ."
        for x in range(side)
        for y in range(side)
    ]
    started = time.monotonic()
    with pytest.raises(ReadError, match=r"x.ttl: 144 blank nodes of one cycle .* Give them IRIs."):
        read(tmp_path, "x.ttl", "\n".join(lines), limits=Limits(max_blank_steps=100_000))
    assert time.monotonic() - started < 2


def test_statements_shared_through_blank_nodes_are_bounded(tmp_path):
    text = "@prefix e: <http://e/> .\n" + "".join(f"e:s{n} e:p _:x .\n" for n in range(100))
    text += "".join(f"_:x e:q {n} .\n" for n in range(100))
    with pytest.raises(ReadError, match="max_statements"):
        read(tmp_path, "x.ttl", text, limits=Limits(max_statements=5_000))


node = st.integers(0, 6)
edges = st.lists(
    st.tuples(node, st.sampled_from("pq"), st.one_of(node, st.sampled_from(['"v"', "<http://e/o>"]))), max_size=14
)


def turtle(edges, rename, shuffle) -> str:
    lines = ["<http://e/a> <http://e/has> _:" + rename(0) + " ."]
    for subject, predicate, value in edges:
        spelled = value if isinstance(value, str) else "_:" + rename(value)
        lines.append(f"_:{rename(subject)} <http://e/{predicate}> {spelled} .")
    shuffle(lines)
    return "\n".join(lines)


@given(edges=edges, chance=st.randoms(use_true_random=False))
@example(edges=[(0, "p", 0), (0, "p", 2), (1, "p", 2), (2, "p", 1)], chance=random.Random(1))
@example(edges=[(0, "p", 0), (1, "p", 0), (3, "p", 1), (1, "p", 3)], chance=random.Random(2))
def test_names_do_not_depend_on_labels_order_or_other_nodes(tmp_path_factory, edges, chance: random.Random):
    folder = tmp_path_factory.mktemp("rdf")
    labels = [f"z{n}" for n in range(7)]
    chance.shuffle(labels)
    plain = said(folder, turtle(edges, str, lambda lines: None).replace("_:", "_:b"))
    other = turtle(edges, labels.__getitem__, chance.shuffle)
    assert said(folder, other) == plain
    more = "\n<http://e/z> <http://e/has> [ <http://e/p> [ <http://e/q> 7 ] ] .\n_:lonely <http://e/p> 9 .\n"
    grown = said(folder, other + more)
    assert {key: grown[key] for key in plain} == plain


@given(edges)
def test_only_nodes_that_say_the_same_share_a_name(edges):
    about = {f"_:{n}": [] for n in range(7)}
    for subject, predicate, value in edges:
        blank_value = not isinstance(value, str)
        about[f"_:{subject}"].append((predicate, f"_:{value}" if blank_value else value, blank_value))
    named, _ = blank.names(about, str, 1_000_000)
    for one in named:
        for other in named:
            if named[one] == named[other]:
                spoken = [{(p, named[o] if b else o) for p, o, b in about[n]} for n in (one, other)]
                assert spoken[0] == spoken[1]


def test_a_change_of_one_blank_node_renames_it_alone(tmp_path):
    text = "".join(f"<http://e/s{n}> <http://e/p> [ <http://e/q> {n} ] .\n" for n in range(1000))
    before, after = said(tmp_path, text), said(tmp_path, text.replace("q> 500 ", "q> 5000 "))
    assert [key for key in before if before[key] != after[key]] == [E + "s500"]
