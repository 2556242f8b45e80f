"""No text costs more than its length, and none that nests or chains without end brings anything down."""

from __future__ import annotations

import contextlib
import gc
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from pyoxigraph import Store

from sparql.syntax import Query, SyntaxProblem, Update, parse, reads, text, walk
from sparql.syntax.parser import _parse
from sparql.syntax.tokens import DEPTH, LINKS

DEEP: dict[str, Callable[[int], str]] = {
    "groups": lambda n: "ASK " + "{" * n + "}" * n,
    "brackets": lambda n: "ASK { FILTER(" + "(" * n + "1" + ")" * n + ") }",
    "signs": lambda n: "ASK { FILTER(" + "!" * n + "1) }",
    "calls": lambda n: "ASK { FILTER(" + "STR(" * n + "1" + ")" * n + ") }",
    "functions": lambda n: "ASK { FILTER(" + "<e:f>(" * n + "1" + ")" * n + ") }",
    "in": lambda n: "ASK { FILTER(" + "1 IN (" * n + "1" + ")" * n + ") }",
    "all operators": lambda n: "ASK { FILTER(" + "1||1&&1=1+1*(" * n + "1" + ")" * n + ") }",
    "exists": lambda n: "ASK {" + "FILTER EXISTS {" * n + "}" * n + "}",
    "exists and bind": lambda n: "ASK { BIND(1 AS ?x) " + "FILTER EXISTS { BIND(1 AS ?x) " * n + "}" * n + "}",
    "optional": lambda n: "ASK {" + "OPTIONAL {" * n + "}" * n + "}",
    "selects": lambda n: "ASK {" + "{ SELECT * " * n + "{}" + "}" * n + "}",
    "graphs": lambda n: "ASK {" + "GRAPH ?g {" * n + "}" * n + "}",
    "paths": lambda n: "ASK { ?s " + "(" * n + "<e:p>" + ")" * n + " ?o }",
    "inverse paths": lambda n: "ASK { ?s " + "^(" * n + "<e:p>" + ")" * n + " ?o }",
    "collections": lambda n: "ASK { ?s ?p " + "(" * n + ")" * n + " }",
    "blank nodes": lambda n: "ASK { ?s ?p " + "[ ?p " * n + "1" + "]" * n + " }",
    "triple terms": lambda n: "ASK { ?s ?p " + "<<( ?s ?p " * n + "1" + " )>>" * n + " }",
    "reified": lambda n: "ASK { " + "<< " * n + "?s" + " ?p ?o >>" * n + " ?p ?o }",
    "annotations": lambda n: "ASK { ?s ?p 1 " + "{| ?p 1 " * n + "|}" * n + " }",
    "aggregates": lambda n: "SELECT (" + "SUM(" * n + "1" + ")" * n + " AS ?x) {}",
    "data": lambda n: "INSERT DATA { <e:s> <e:p> " + "(" * n + ")" * n + " }",
}
LONG: dict[str, Callable[[int], str]] = {
    "or": lambda n: "ASK { FILTER(1" + "||1" * n + ") }",
    "and": lambda n: "ASK { FILTER(1" + "&&1" * n + ") }",
    "sum": lambda n: "ASK { FILTER(1" + "+1" * n + ") }",
    "product": lambda n: "ASK { FILTER(1" + "*1" * n + ") }",
    "union": lambda n: "ASK { {}" + "UNION{}" * n + " }",
    "optional": lambda n: "ASK { " + "OPTIONAL{}" * n + " }",
    "minus": lambda n: "ASK { " + "MINUS{}" * n + " }",
    "filter": lambda n: "ASK { " + "FILTER(1)" * n + " }",
    "bind": lambda n: "ASK { " + "".join(f"BIND(1 AS ?x{i})" for i in range(n)) + " }",
    "sequence": lambda n: "ASK { ?s <e:p>" + "/<e:p>" * n + " ?o }",
    "alternative": lambda n: "ASK { ?s <e:p>" + "|<e:p>" * n + " ?o }",
    "as": lambda n: "SELECT " + "".join(f"(1 AS ?x{i})" for i in range(n)) + " {}",
    "group by": lambda n: "SELECT (1 AS ?y) {} GROUP BY " + "".join(f"(1 AS ?x{i})" for i in range(n)),
    "having": lambda n: "SELECT (1 AS ?y) {} HAVING " + "(1)" * n,
}
# Each of about as many characters as asked for.
WIDE: dict[str, Callable[[int], str]] = {
    "triples": lambda n: "ASK { " + "?s ?p ?o . " * (n // 11) + "}",
    "objects": lambda n: "ASK { ?s ?p 1" + ", 1" * (n // 3) + " }",
    "properties": lambda n: "ASK { ?s ?p 1" + "; ?p 1" * (n // 6) + " }",
    "semicolons": lambda n: "ASK { ?s ?p 1" + ";" * n + " }",
    "values": lambda n: "ASK { VALUES ?x { " + "1 " * (n // 2) + "} }",
    "in": lambda n: "ASK { FILTER(1 IN (1" + ",1" * (n // 2) + ")) }",
    "data": lambda n: "INSERT DATA { " + "<e:s> <e:p> 'o' . " * (n // 18) + "}",
    "operations": lambda n: "INSERT DATA {} ; " * (n // 17),
    "labels": lambda n: "INSERT DATA { " + "".join(f"_:b{i} <e:p> 1 . " for i in range(n // 16)) + "}",
    "prefixes": lambda n: "".join(f"PREFIX p{i}: <e:{i}> " for i in range(n // 22)) + "ASK {}",
    "selected": lambda n: "SELECT " + "".join(f"?x{i} " for i in range(n // 8)) + "{}",
    "ordered": lambda n: "SELECT * {} ORDER BY " + "".join(f"?x{i} " for i in range(n // 8)),
    "one string": lambda n: 'ASK { ?s ?p "' + "a" * n + '" }',
    "escapes": lambda n: 'ASK { ?s ?p "' + "\\u0041" * (n // 6) + '" }',
    "one IRI": lambda n: "ASK { ?s ?p <e:" + "a" * n + "> }",
    "dotted name": lambda n: "PREFIX e: <e:> ASK { ?s ?p e:" + "a." * (n // 2) + "a }",
    "less": lambda n: "ASK { FILTER(1 IN (1" + ",?a<1" * (n // 5) + ")) }",
    "comments": lambda n: "ASK {}" + "#\n" * (n // 2),
    "hashes": lambda n: "#" * n,
    "names in scope": lambda n: "ASK {" + "{" * 40 + "BIND(1 AS ?x) " + "?a ?b ?c . " * (n // 11) + "}" * 40 + "}",
    "space": lambda n: "ASK {" + " " * n + "}",
}
BROKEN: dict[str, Callable[[int], str]] = {
    "open string": lambda n: 'ASK { ?s ?p "' + "a" * n,
    "open long string": lambda n: 'ASK { ?s ?p """' + 'a""' * (n // 3),
    "quotes": lambda n: "ASK { ?s ?p " + "'" * n,
    "open IRI": lambda n: "ASK { ?s ?p <" + "a" * n,
    "many open IRIs": lambda n: "ASK { FILTER(1 IN (1" + ",?a<b" * (n // 5),
    "dots": lambda n: "ASK { ?s ?p a" + "." * n,
    "dotted words": lambda n: "ASK { ?s ?p " + "a." * (n // 2),
    "name and dots": lambda n: "PREFIX e: <e:> ASK { ?s ?p e:a" + "." * n,
    "backslashes": lambda n: "ASK { ?s ?p '" + "\\\\" * (n // 2),
    "digits": lambda n: "ASK { ?s ?p " + "1" * n + "e",
    "exponents": lambda n: "ASK { FILTER(1 IN (1" + ",1e" * (n // 3),
    "long prefix": lambda n: "ASK { ?s " + "a" * n + ":b 1 }",
    "long word": lambda n: "A" * n,
    "many misspelt prefixes": lambda n: "".join(f"PREFIX p{i}: <e:> " for i in range(n // 20)) + "ASK { ?s pp:x 1 }",
    "minus signs": lambda n: "ASK { FILTER(" + "-" * n,
    "control characters": lambda n: "ASK { ?s ?p '" + "\x00" * n + "' } \x00",
    "a long limit": lambda n: "ASK {} LIMIT " + "9" * n,
}


@pytest.mark.parametrize("kind", DEEP)
def test_what_nests_too_deeply_ends_at_the_named_limit(kind: str) -> None:
    for depth in (DEPTH + 1, 100_000):
        with pytest.raises(SyntaxProblem, match=r"deep in each other here \(limit: depth\)") as found:
            parse(DEEP[kind](depth))
        assert found.value.limit == "depth"


@pytest.mark.parametrize("kind", DEEP)
def test_what_nests_as_deeply_as_allowed_is_read_printed_and_judged(kind: str) -> None:
    tree = parse(DEEP[kind](DEPTH // 2 - 2))
    assert list(walk(parse(text(tree)))) and text(parse(text(tree))) == text(tree)
    assert reads(tree).services == ()
    with pytest.raises(SyntaxProblem, match="limit: depth"):
        parse(DEEP[kind](DEPTH // 2 - 2), depth=10)


@pytest.mark.parametrize("kind", DEEP)
def test_on_a_stack_nearly_used_up_deep_text_is_a_problem_and_no_recursion_error(kind: str) -> None:
    written, answers = DEEP[kind](DEPTH - 10), []

    def descend(levels: int) -> None:
        if levels:
            descend(levels - 1)
            return
        try:
            answers.append(parse(written + " ", depth=DEPTH + 1))
        except SyntaxProblem as wrong:
            answers.append(wrong.limit)

    thread = threading.Thread(target=descend, args=(sys.getrecursionlimit() - 60,))
    thread.start()
    thread.join()
    assert answers == ["depth"]


@pytest.mark.parametrize("kind", LONG)
def test_what_chains_too_long_for_the_engine_ends_at_the_named_limit(kind: str) -> None:
    with pytest.raises(SyntaxProblem, match=r"more than 2,000 patterns and operators \(limit: links\)") as found:
        parse(LONG[kind](100_000))
    assert found.value.limit == "links"
    tree = parse(LONG[kind](LINKS - 10))
    assert parse(text(tree)) == tree


@pytest.mark.parametrize("kind", ["or", "sum", "union", "filter", "optional", "as", "having", "alternative"])
def test_the_engine_survives_what_the_limits_let_through(kind: str) -> None:
    assert Store().query(LONG[kind](LINKS - 10)) is not None


@pytest.mark.parametrize("kind", DEEP)
def test_the_engine_survives_what_nests_as_deeply_as_allowed(kind: str) -> None:
    written = DEEP[kind](DEPTH // 2 - 2)
    with contextlib.suppress(SyntaxError, RuntimeError):
        if isinstance(parse(written), Update):
            Store().update(written)
        else:
            Store().query(written)


def seconds(work: Callable[[], object]) -> float:
    took = []
    for _ in range(2):
        gc.disable()  # what the other tests of this process left behind is not looked through
        began = time.thread_time()  # not the wall: other tests run beside this one
        with contextlib.suppress(SyntaxProblem):
            work()
        took.append(time.thread_time() - began)
        gc.enable()
    return min(took)


@pytest.mark.parametrize("kind", [*WIDE, *BROKEN])
def test_ten_times_the_text_takes_about_ten_times_as_long(kind: str) -> None:
    write = WIDE.get(kind) or BROKEN[kind]
    short, long = write(10_000), write(100_000)
    quick, slow = (seconds(partial(_parse, one, {}, None, None, DEPTH, LINKS)) for one in (short, long))
    # A quadratic parser would need a hundred times as long.
    assert slow < 30 * quick + 0.01, f"{quick:.4f} s, then {slow:.4f} s"
    if kind in WIDE:
        assert isinstance(parse(short), Query | Update)
        assert isinstance(parse(text(parse(short))), Query | Update)
    else:
        with pytest.raises(SyntaxProblem) as found:
            parse(short)
        assert len(found.value.message) <= 400 and len(found.value.token) <= 80


@pytest.mark.soak
@pytest.mark.parametrize("kind", [*WIDE, *BROKEN])
def test_a_megabyte_is_read_in_few_seconds(kind: str) -> None:
    written = (WIDE.get(kind) or BROKEN[kind])(2**20)
    assert seconds(lambda: parse(written)) < 5
