"""A write to a merged store is a record's: it holds with what others say, goes without them, and passes the shapes."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphtide.engine import Engine
from sparql.names import TOKEN
from sparql.sync.edit import Refused
from sparql.sync.removing import Unknown
from sparql.sync.updating import Written

BASE = "https://m.example/"
ANN = f'<{BASE}people/1> <{BASE}def/name> "Ann"'
SHAPES = f"""
@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix d: <{BASE}def/> . @prefix x: <{BASE}shapes/> .
x:Team a sh:NodeShape ; sh:targetClass d:Team ; sh:property [ sh:path d:size ; sh:maxCount 1 ; sh:minInclusive 1 ;
    sh:message "A team has one size of 1 or more." ] .
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("merged")
    (folder / "people.csv").write_text("id,name\n1,Ann\n2,Bob\n")
    (folder / "shapes.ttl").write_text(SHAPES)
    (folder / "graphtide.toml").write_text(
        f'base = "{BASE}"\n[ontology]\nshapes = ["shapes.ttl"]\n[sources.people]\npath = "people.csv"\nkey = "id"\n'
    )
    with Engine(folder) as found:
        found.sync()
        yield found


@pytest.fixture(autouse=True)
def nothing_written(engine: Engine) -> Iterator[None]:
    yield
    for name in ("alice", "bob"):
        try:
            engine.forget(f"{TOKEN}/{name}")
        except Unknown:
            continue
    plain = [graph for graph in engine.store._graph.named_graphs() if str(graph).startswith("<urn:")]
    for graph in plain:
        write(engine, f"DROP SILENT GRAPH {graph}")
    assert engine.verify().clean


def write(engine: Engine, text: str, token: str = "alice", graphs: Any = "*", **more: Any) -> Written:
    prologue = f"PREFIX : <{BASE}> PREFIX d: <{BASE}def/> PREFIX p: <{BASE}people/>\n"
    return engine.updates.update({"text": prologue + text, "token": token, "graphs": graphs, **more})


def put(engine: Engine, method: str, graph: str | None, text: str = "", token: str = "alice", **more: Any) -> Written:
    document = {"type": "text/turtle", "data": base64.b64encode(text.encode()).decode()}
    return engine.updates.graph(
        {"method": method, "graph": graph, "documents": [document], "token": token, "graphs": "*", **more}
    )


def own(engine: Engine, token: str = "alice") -> frozenset[str]:
    return engine.store.statements(engine.store.names.record(TOKEN, token))


def test_what_a_token_writes_is_in_its_record_and_holds(engine: Engine) -> None:
    made = write(engine, "INSERT DATA { :a :knows :b }")
    fact = f"<{BASE}a> <{BASE}knows> <{BASE}b>"
    assert (made.added, made.removed, made.created) == (1, 0, True)
    assert own(engine) == {fact}
    assert engine.store.holds(fact)
    assert list(engine.store.asserted_by(fact)) == [f"{BASE}record/token/alice"]
    assert engine.store.head == made.commit


def test_a_fact_another_record_says_stays_and_the_answer_says_who_says_it(engine: Engine) -> None:
    write(engine, 'INSERT DATA { p:1 d:name "Ann" }')
    made = write(engine, 'DELETE DATA { p:1 d:name "Ann" }')
    assert made.removed == 1
    assert engine.store.holds(ANN)
    who = {"source": "people", "key": "1", "graph": f"{BASE}record/people/1", "locator": "people.csv:2"}
    assert made.kept == [{"statement": ANN, "said_by": [who]}]
    again = write(engine, 'DELETE DATA { p:1 d:name "Ann" }')
    assert (again.removed, again.kept_count, again.commit) == (0, 1, made.commit)


def test_a_fact_that_only_the_own_record_says_goes(engine: Engine) -> None:
    write(engine, "INSERT DATA { :a :knows :b , :c }")
    made = write(engine, "DELETE WHERE { :a :knows :b }")
    assert (made.removed, made.kept) == (1, [])
    assert not engine.store.holds(f"<{BASE}a> <{BASE}knows> <{BASE}b>")
    write(engine, "DELETE DATA { :a :knows :c }")
    assert not [row for row in engine.status()["sources"] if row["name"] == TOKEN]


def test_two_tokens_say_the_same_and_each_takes_back_its_own(engine: Engine) -> None:
    for token in ("alice", "bob"):
        write(engine, "INSERT DATA { :a :knows :b }", token)
    made = write(engine, "DELETE DATA { :a :knows :b }", "bob")
    assert [one["said_by"][0]["key"] for one in made.kept] == ["alice"]
    assert engine.store.holds(f"<{BASE}a> <{BASE}knows> <{BASE}b>")


def test_each_operation_sees_what_the_one_before_did(engine: Engine) -> None:
    write(
        engine,
        """INSERT DATA { :a :n 1 } ;
        INSERT { GRAPH <urn:g> { ?s :copied ?n } } WHERE { ?s :n ?n } ;
        DELETE { ?s :n ?n } INSERT { ?s :n 2 } WHERE { ?s :n ?n . GRAPH <urn:g> { ?s :copied ?n } } ;
        DELETE WHERE { p:1 d:name ?name } ;
        INSERT { :a :saw ?name } WHERE { p:1 d:name ?name }""",
    )
    integer = "^^<http://www.w3.org/2001/XMLSchema#integer>"
    assert own(engine) == {f'<{BASE}a> <{BASE}n> "2"{integer}', f'<{BASE}a> <{BASE}saw> "Ann"'}
    assert engine.store.statements("urn:g") == {f'<{BASE}a> <{BASE}copied> "1"{integer}'}


def test_an_update_that_fails_half_way_does_nothing(engine: Engine) -> None:
    head = engine.store.head
    with pytest.raises(Refused, match="There is no graph <urn:none>"):
        write(engine, "INSERT DATA { :a :knows :b } ; DROP GRAPH <urn:none>")
    assert (engine.store.head, own(engine)) == (head, frozenset())


@pytest.mark.parametrize(
    ("graph", "says"),
    [
        ("record/people/1", "the source 'people' says"),
        ("system/cursor", "a system graph"),
        ("record/token/bob", "token"),
    ],
)
def test_the_graphs_of_others_are_read_only(engine: Engine, graph: str, says: str) -> None:
    for text in (
        f"INSERT DATA {{ GRAPH <{BASE}{graph}> {{ :a :b :c }} }}",
        f"WITH <{BASE}{graph}> INSERT {{ ?s ?p 1 }} WHERE {{ VALUES (?s ?p) {{ (:a :b) }} }}",
        f"CREATE SILENT GRAPH <{BASE}{graph}x>",
    ):
        with pytest.raises(Refused, match=says) as refused:
            write(engine, text)
        assert refused.value.code == "read-only"
    with pytest.raises(Refused, match=says):
        put(engine, "PUT", BASE + graph, "<a> <b> <c> .")


def test_clear_all_takes_what_is_the_tokens_and_nobodys_and_leaves_the_sources(engine: Engine) -> None:
    write(engine, "INSERT DATA { :a :b :c GRAPH <urn:g> { :a :b :c } }")
    write(engine, "INSERT DATA { :d :e :f }", "bob")
    made = write(engine, "CLEAR ALL")
    assert (made.removed, engine.store.statements("urn:g")) == (2, frozenset())
    assert engine.store.holds(ANN)
    assert engine.store.holds(f"<{BASE}d> <{BASE}e> <{BASE}f>")
    assert engine.store.exists("urn:g")
    write(engine, "DROP GRAPH <urn:g>")
    assert not engine.store.exists("urn:g")


def test_a_record_that_breaks_a_shape_or_uses_an_unknown_term_is_refused_whole(engine: Engine) -> None:
    write(engine, "INSERT DATA { :t a d:Team ; d:size 3 }")
    before, head = own(engine), engine.store.head
    for text, message in (
        ("INSERT DATA { :t d:size 4 . :u :v :w GRAPH <urn:g> { :a :b :c } }", "A team has one size"),
        ("INSERT DATA { :x a <https://w3id.org/graphtide/ns#Servise> }", "gt:Service"),
    ):
        with pytest.raises(Refused, match=message) as refused:
            write(engine, text)
        assert refused.value.code == "rejected"
        assert refused.value.details["violations"][0]["record"] == f"{BASE}record/token/alice"
    assert (own(engine), engine.store.head, engine.store.statements("urn:g")) == (before, head, frozenset())
    write(engine, "DELETE DATA { :t d:size 3 } ; INSERT DATA { :t d:size 4 }")


def test_scopes_of_a_token_hold_for_every_graph_an_update_touches(engine: Engine) -> None:
    for graphs, text in (
        (["urn:g"], "INSERT DATA { :a :b :c }"),
        ([""], "INSERT DATA { :a :b :c GRAPH <urn:g> { :a :b :c } }"),
        (["urn:g"], "INSERT { GRAPH ?g { :a :b :c } } WHERE { VALUES ?g { <urn:g> <urn:h> } }"),
        (["urn:g"], "COPY <urn:g> TO <urn:h>"),
        (["urn:g"], "CREATE GRAPH <urn:h>"),
    ):
        write(engine, "INSERT DATA { GRAPH <urn:g> { :x :y :z } }")
        with pytest.raises(Refused, match="may not write") as refused:
            write(engine, text, graphs=graphs)
        assert refused.value.code == "not-allowed"
    write(engine, "INSERT DATA { GRAPH <urn:g> { :a :b :c } }", graphs=["urn:g"])
    with pytest.raises(Refused, match="may not read"):
        write(engine, "INSERT { GRAPH <urn:g> { ?s ?p ?o } } WHERE { ?s ?p ?o }", graphs=["urn:g"], reads=False)


def test_blank_nodes_become_iris_of_ours_and_the_same_document_the_same(engine: Engine) -> None:
    write(engine, "INSERT DATA { :a :b [ :c 1 ] , [ :c 1 ] }")
    assert len(own(engine)) == 4
    document = "<a> <b> [ <c> 1 ] , [ <c> 1 ] , [ <c> [ <d> 2 ] ] ."
    assert put(engine, "PUT", "urn:g", document).added == 7
    again = put(engine, "PUT", "urn:g", document)
    assert (again.added, again.removed) == (0, 0)
    assert put(engine, "POST", "urn:g", document).added == 7


def test_a_put_to_the_default_graph_is_all_that_the_token_says(engine: Engine) -> None:
    write(engine, "INSERT DATA { :a :b :c , :d }")
    made = put(engine, "PUT", None, f"<{BASE}a> <{BASE}b> <{BASE}c> , <{BASE}e> .")
    assert (made.added, made.removed) == (1, 1)
    assert put(engine, "DELETE", None).removed == 2
    assert own(engine) == frozenset()
    assert engine.store.holds(ANN)


def test_what_a_token_wrote_survives_verify_and_repair_and_the_loss_of_its_token(engine: Engine) -> None:
    write(engine, "INSERT DATA { :a :b :c }")
    assert engine.verify(repair=True).clean
    assert own(engine)
    row = next(row for row in engine.status()["sources"] if row["name"] == TOKEN)
    assert (row["kind"], row["state"], row["records"], row["mode"]) == ("http", "ok", 1, "written")
    engine.sync()
    assert own(engine)
    assert engine.forget(f"{TOKEN}/alice").removed == 1
    with pytest.raises(Unknown, match="'alice'"):
        engine.forget(f"{TOKEN}/alice")


def test_a_record_of_a_token_can_be_erased_from_history(engine: Engine) -> None:
    write(engine, 'INSERT DATA { :a :secret "hunter2 hunter2" } ; INSERT { :a :n ?n } WHERE { :a :secret ?n }')
    engine.erase(f"{TOKEN}/alice")
    assert own(engine) == frozenset()
    for path in engine.settings.state.rglob("*"):
        assert not path.is_file() or b"hunter2" not in path.read_bytes(), path


def test_changed_shapes_judge_the_whole_record_at_its_next_write(engine: Engine) -> None:
    write(engine, "INSERT DATA { :t a d:Crew . :u :v :w }")
    path = engine.settings.dir / "shapes.ttl"
    try:
        path.write_text(SHAPES + "x:Crew a sh:NodeShape ; sh:targetClass d:Crew ; sh:property "
                        '[ sh:path d:size ; sh:minCount 1 ; sh:message "A crew has a size." ] .')  # fmt: skip
        engine.reload()
        with pytest.raises(Refused, match="A crew has a size"):
            write(engine, "INSERT DATA { :u :v :x }")
        write(engine, "INSERT DATA { :u :v :x . :t d:size 3 }")
    finally:
        path.write_text(SHAPES)
        engine.reload()
        engine.sync()


def test_a_precondition_is_held_against_what_others_commit_meanwhile(engine: Engine) -> None:
    made = put(engine, "PUT", "urn:g", "<a> <b> <c> .")
    since = {"graph": "urn:g", "untouched_since": made.commit}
    write(engine, "INSERT DATA { GRAPH <urn:other> { :a :b :c } }")
    changed = put(engine, "PUT", "urn:g", "<a> <b> <d> .", must=since)
    assert changed.added == 1
    for must, why in ((since, "changed meanwhile"), ({"graph": "urn:g", "exists": False}, "is there already"),
                      ({"graph": "urn:new", "exists": True}, "is not there")):  # fmt: skip
        with pytest.raises(Refused, match=why) as refused:
            put(engine, "PUT", must["graph"], "<a> <b> <e> .", must=must)
        assert refused.value.code == "precondition-failed"


def test_a_pattern_that_never_ends_is_ended_and_nobody_waits_for_it(engine: Engine) -> None:
    endless = "INSERT { :a :b ?x } WHERE { " + " ".join(f"VALUES ?v{n} {{ 0 1 2 3 4 5 6 7 8 9 }}" for n in range(12))
    seconds, waits = engine.settings.limits.update_seconds, []
    object.__setattr__(engine.settings.limits, "update_seconds", 1.5)
    refused: list[Refused] = []

    def run() -> None:
        with pytest.raises(Refused) as found:
            write(engine, endless + " BIND(?v0 + ?v1 + ?v11 AS ?x) }")
        refused.append(found.value)

    began = time.monotonic()
    thread = threading.Thread(target=run)
    thread.start()
    try:
        while thread.is_alive():
            asked = time.monotonic()
            engine.sync(["people"])
            waits.append(time.monotonic() - asked)
            time.sleep(0.05)
        thread.join()
        assert [one.code for one in refused] == ["update-timeout"]
        assert time.monotonic() - began < 10.0
        assert max(waits) < 1.0
    finally:
        object.__setattr__(engine.settings.limits, "update_seconds", seconds)
    assert write(engine, "INSERT DATA { :a :b :c }").added == 1


def test_an_update_of_too_many_statements_is_refused_by_the_limits_name(engine: Engine) -> None:
    most = engine.settings.limits.update_statements
    object.__setattr__(engine.settings.limits, "update_statements", 100)
    try:
        for text in (
            "INSERT { :a :b ?x } WHERE { VALUES ?u { 0 1 2 3 4 5 6 7 8 9 } VALUES ?v { 0 1 2 3 4 5 6 7 8 9 }"
            " VALUES ?w { 0 1 } BIND(?u + 10 * ?v + 100 * ?w AS ?x) }",
            "COPY DEFAULT TO <urn:g>",
            "INSERT DATA { :a :b " + " , ".join(map(str, range(101))) + " }",
        ):
            with pytest.raises(Refused, match="update_statements") as refused:
                write(engine, text)
            assert refused.value.code == "too-many"
        with pytest.raises(Refused, match="update_statements"):
            put(engine, "PUT", "urn:g", "<a> <b> " + " , ".join(map(str, range(101))) + " .")
    finally:
        object.__setattr__(engine.settings.limits, "update_statements", most)


FACTS = [f"<{BASE}n{s}> <{BASE}p> <{BASE}n{o}>" for s in range(2) for o in range(2)]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["alice", "bob"]),
        st.sampled_from(["insert", "delete", "where", "put", "file"]),
        st.sets(st.sampled_from(FACTS), max_size=3),
    ),
    min_size=1,
    max_size=8,
)


@settings(max_examples=12)
@given(steps=STEPS)
def test_what_holds_is_what_somebody_says_after_any_writes(engine: Engine, steps: list[Any]) -> None:
    said: dict[str, set[str]] = {name: set(own(engine, name)) for name in ("alice", "bob")}
    names = ["Ann", "Bob"]
    for number, (token, how, facts) in enumerate(steps):
        text = " . ".join(sorted(facts))
        if how == "insert":
            write(engine, f"INSERT DATA {{ {text} }}", token)
            said[token] |= facts
        elif how == "delete":
            write(engine, f"DELETE DATA {{ {text} }}", token)
            said[token] -= facts
        elif how == "where":
            write(engine, "DELETE { ?s ?p ?o } INSERT { ?o ?p ?s } WHERE { ?s ?p ?o FILTER(?p = :p) }", token)
            holds = said["alice"] | said["bob"]
            said[token] = {" ".join(fact.split()[::-1]) for fact in holds}
        elif how == "put":
            put(engine, "PUT", None, f"{text} ." if text else "", token)
            said[token] = set(facts)
        else:
            names[0] = f"Ann {number}"
            (engine.settings.dir / "people.csv").write_text(f"id,name\n1,{names[0]}\n2,Bob\n")
            engine.sync(["people"])
    (engine.settings.dir / "people.csv").write_text("id,name\n1,Ann\n2,Bob\n")
    engine.sync(["people"])
    assert {name: set(own(engine, name)) for name in said} == said
    assert {fact for fact in FACTS if engine.store.holds(fact)} == said["alice"] | said["bob"]
    assert engine.store.holds(ANN)
    assert engine.verify().clean
