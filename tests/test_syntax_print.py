"""A tree prints back to a text that means the same, for every form of SPARQL 1.1 and 1.2."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyoxigraph import Store

from sparql.syntax import SyntaxProblem, parse, text, visible, walk
from sparql.syntax.tree import Compare, Iri, Literal, Query, Triples, Unary, Update, Var

FORMS = [
    "SELECT * {}",
    "SELECT DISTINCT ?x (1 + 2 AS ?y) FROM <e:a> FROM NAMED <e:b> WHERE { ?x ?p ?o } VALUES ?x { <e:z> }",
    "SELECT REDUCED * { { SELECT ?x { ?x ?p ?o } ORDER BY DESC(?o) ?x LIMIT 3 OFFSET 1 } }",
    "CONSTRUCT WHERE { ?s ?p [] ; a <e:C> }",
    "CONSTRUCT { ?s ?p ( 1 [ <e:p> 2 ] ) } FROM <e:a> { ?s ?p ?o } LIMIT 1",
    "CONSTRUCT { } WHERE { }",
    "DESCRIBE *  { ?s ?p ?o }",
    "DESCRIBE ?x <e:a> FROM <e:b>",
    "ASK FROM NAMED <e:g> { GRAPH ?g { } }",
    "BASE <http://e/a/> PREFIX : <b#> VERSION '1.2' BASE <../c> SELECT * { :x <y> <> , <#z> , <//h/p> , <?q> }",
    "PREFIX a: <e:a/> PREFIX a: <e:b/> SELECT * { a:x a:y.z a:%20\\~\\$ . a: a:1 a:_- }",
    "SELECT * { ?s <e:p>/^<e:q>|!(a|^<e:r>)*/(<e:p>?/<e:q>)+ ?o . ?s ^(<e:p>|<e:q>) ?o ; !a ?z ; !(^a) ?w ; !() ?v }",
    "SELECT * { ?s ^<e:p>* ?o ; (^<e:p>)* ?o ; ^(^<e:p>) ?o ; (<e:p>*)* ?o }",
    "SELECT * { ?s ?p 1, +1, -1, 1.5, -.5, 1e3, 1.E-3, true, 'a', \"\"\"b\"c\"\"\", '''d'e''', 'f'@en-US, 'g'^^<e:t> }",
    r"""SELECT * { ?s ?p '\t\n\r\b\f\\\'\"', "\u00e9\U0001F600", "a\u000Bb" ; <e:\u0061> 1 }""",
    "SELECT * { ?s ?p 'a'@ar--rtl , 'b'@en--ltr , '1'^^<http://www.w3.org/2001/XMLSchema#integer> }",
    "SELECT * { ?s ?p '1.0'^^<http://www.w3.org/2001/XMLSchema#integer>, '1'^^<e:int> }",
    "SELECT * { OPTIONAL { ?a ?b ?c } . MINUS { } { } UNION { } UNION { ?x ?y ?z } BIND(?a AS ?q) LATERAL { } }",
    "SELECT * { SERVICE SILENT <e:s> { ?s ?p ?o } SERVICE ?x { } GRAPH <e:g> { { } } }",
    "SELECT * { VALUES ( ) { ( ) ( ) } VALUES (?a ?b) { (1 UNDEF) (<e:x> 'y'@en) } VALUES ?c { } VALUES (?d) { (1) } }",
    "SELECT * { FILTER(!?a || ?b && (?c || ?d) && !(?e = 1)) FILTER(?a < ?b) FILTER(-?a + - 1 > +?b - -1) }",
    "SELECT * { FILTER((1 - 2) - 3 = 1 - (2 - 3)) FILTER(1 * (2 + 3) / 4 != (1 * 2) * 3) FILTER((?a = ?b) = ?c) }",
    "SELECT * { FILTER(?x -1 < 2 +3*4 ) FILTER(?x<5&&?y>3) FILTER(?x<=<e:a>) FILTER(((1||2)||3)) }",
    "SELECT * { FILTER(?x IN ()) FILTER(?x NOT IN (1, ?y + 1, <e:f>(?z))) FILTER((?x IN (1)) = true) }",
    "SELECT * { FILTER EXISTS { ?s ?p ?o FILTER NOT EXISTS { } } FILTER(1 = 1 && NOT EXISTS { ?a ?b ?c }) }",
    "SELECT * { FILTER <e:f>(1, 2) FILTER REGEX(?x, 'a', 'i') FILTER(md5(CONCAT('a', COALESCE()))) FILTER(BNODE()) }",
    "SELECT (COUNT(*) AS ?a) (COUNT(DISTINCT *) AS ?b) (SUM(DISTINCT ?x) AS ?c) (SAMPLE(?x) AS ?s) { ?x ?y ?z }",
    "SELECT (GROUP_CONCAT(?x ; SEPARATOR = '\"\\n') AS ?d) (group_concat(distinct ?x) AS ?e) "
    "(<e:f>(DISTINCT ?x) AS ?f) {}",
    "SELECT ?x (AVG(?z) AS ?m) { ?x ?y ?z } GROUP BY ?x STR(?y) (?z + 1 AS ?w) (1) HAVING (MIN(?z) > 1) (?x = 1)",
    "SELECT * {} ORDER BY ?a ASC(?b) DESC(?c + 1) STR(?d) (1 = 2) <e:f>(?x)",
    "SELECT * { <<( ?s <e:p> <<( <e:a> a 1 )>> )>> ?p ?o . << ?s ?p ?o >> . << ?s a ?o ~ >> ?p << <e:a> "
    "<e:b> [] ~ _:r >> }",
    "SELECT * { ?s ?p ?o ~ ?r {| <e:a> 1 ; <e:b> 2, 3 |} {| ?x ?y |} ~ ~ {| a <e:z> |} ~ <e:q> , ?o2 ~ . }",
    "SELECT * { FILTER(TRIPLE(?a, ?b, 1) = <<( ?a ?b 'x'@en--ltr )>>) FILTER(hasLANGDIR(STRLANGDIR('a', "
    "'b', 'ltr'))) }",
    "SELECT * { FILTER(isTRIPLE(?t) && SUBJECT(?t) = PREDICATE(?s) || LANGDIR(?o) = 'ltr' || "
    "sameValue(OBJECT(?t), ?o)) }",
    "SELECT * { [] ?p [ ?q [ ] ] . [ <e:p> 1 ] . ( ) ?p ( ) . ( 1 ( 2 ) ) . _:a ?p _:b.c }",
    "INSERT DATA { <e:a> <e:b> 1 . GRAPH <e:g> { _:x a <e:C> ; <e:p> ( 1 2 ) } <e:a> <e:b> 2 }",
    "DELETE DATA { GRAPH <e:g> { } <e:a> <e:b> <<( <e:a> <e:b> 1 )>> } ; DELETE WHERE { GRAPH ?g { ?s ?p "
    "?o } ?a ?b ?c }",
    "WITH <e:g> DELETE { ?s ?p ?o } INSERT { ?s ?p [] } USING <e:a> USING NAMED <e:b> WHERE { ?s ?p ?o }",
    "DELETE { } WHERE { } ; INSERT { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } } ;",
    "LOAD <e:a> ; LOAD SILENT <e:a> INTO GRAPH <e:b> ; CLEAR ALL ; CLEAR SILENT NAMED ; DROP DEFAULT ; "
    "DROP GRAPH <e:g>",
    "CREATE GRAPH <e:g> ; CREATE SILENT GRAPH <e:g> ; COPY DEFAULT TO <e:b> ; MOVE SILENT GRAPH <e:a> TO "
    "DEFAULT ; ADD <e:a> TO <e:b>",
    "PREFIX a: <e:a> INSERT DATA { a:x a:y a:z } ; PREFIX a: <e:b> BASE <http://e/> DELETE DATA { a:x "
    "a:y <z> } ; PREFIX c: <e:c>",
    "",
    "PREFIX a: <e:a>",
]


@pytest.mark.parametrize("written", FORMS)
def test_every_form_prints_back_to_the_same_tree(written: str) -> None:
    tree = parse(written)
    printed = text(tree)
    assert parse(printed) == tree
    assert text(parse(printed)) == printed


def test_a_printed_query_is_one_the_engine_answers_alike() -> None:
    store = Store()
    store.update(
        "PREFIX e: <e:> INSERT DATA { e:a e:p e:b ; e:q 1, 2 . e:b e:p e:c ; e:q 3 . e:c a e:C ; e:label 'x'@en }"
    )
    for query in [
        "SELECT ?s (SUM(?n) - 1 - -2 * 3 AS ?t) { ?s <e:q> ?n } GROUP BY ?s HAVING (SUM(?n) > 2) ORDER BY DESC(?t)",
        "PREFIX e: <e:> SELECT * { ?s e:p+/a ?c . ?s ^e:p* ?d FILTER(?s != e:a || EXISTS { ?s e:q 3 }) }",
        "PREFIX e: <e:> SELECT * { { ?s e:q ?n FILTER(?n*2 -1 > 2) } UNION { ?s e:label ?l } MINUS { ?s a e:C } }",
        "PREFIX e: <e:> SELECT * { VALUES (?s ?n) { (e:a UNDEF) (UNDEF 3) } ?s e:q ?n BIND(STR(?n) AS ?t) }",
    ]:
        ours, theirs = (
            sorted(tuple(map(str, row)) for row in store.query(one))  # type: ignore[union-attr]
            for one in (text(parse(query)), query)
        )
        assert ours == theirs and ours


def test_iris_are_short_where_the_text_declares_a_prefix_for_them() -> None:
    query = "PREFIX e: <http://e/> SELECT * { <http://e/a> <http://e/p/q> <http://other/b> , 1 ; a <http://e/> }"
    assert text(parse(query)) == (
        "PREFIX e: <http://e/>\nSELECT *\nWHERE {\n  e:a <http://e/p/q> <http://other/b>, 1 ;\n    a e: .\n}\n"
    )
    assert "<http://e/a>" in text(parse("ASK { e:a ?p ?o }", prefixes={"e": "http://e/"}))


def test_a_relative_iri_is_read_as_rfc_3986_says() -> None:
    base = "http://a/b/c/d;p?q"
    examples = {
        "g:h": "g:h", "g": "http://a/b/c/g", "./g": "http://a/b/c/g", "g/": "http://a/b/c/g/", "/g": "http://a/g",
        "//g": "http://g", "?y": "http://a/b/c/d;p?y", "g?y": "http://a/b/c/g?y", "#s": "http://a/b/c/d;p?q#s",
        "": "http://a/b/c/d;p?q", ".": "http://a/b/c/", "..": "http://a/b/", "../g": "http://a/b/g",
        "../..": "http://a/", "../../../g": "http://a/g", "/./g": "http://a/g", "/../g": "http://a/g",
        "g.": "http://a/b/c/g.", "..g": "http://a/b/c/..g", "./g/.": "http://a/b/c/g/", "g/./h": "http://a/b/c/g/h",
        "g;x=1/../y": "http://a/b/c/y", "g?y/../x": "http://a/b/c/g?y/../x", "http://x/a/../b": "http://x/a/../b",
    }  # fmt: skip
    for written, meant in examples.items():
        assert parse(f"ASK {{ ?s ?p <{written}> }}", base=base) == parse(f"ASK {{ ?s ?p <{meant}> }}")
        store = Store()
        store.update(f"INSERT DATA {{ <e:s> <e:p> <{written}> }}", base_iri=base)
        assert [quad.object.value for quad in store] == [meant]


def test_a_sign_belongs_to_the_number_only_where_no_operator_can_stand() -> None:
    def condition(query: str) -> object:
        tree = parse(f"ASK {{ FILTER({query}) }}")
        assert isinstance(tree, Query) and tree.where is not None
        return tree.where.elements[0].condition  # type: ignore[union-attr]

    integer = "http://www.w3.org/2001/XMLSchema#integer"
    assert condition("?x<5&&?y>3") == condition("?x < 5 && ?y > 3")
    assert condition("?x -1") == condition("?x - 1") == condition("?x-1")
    assert condition("-1") == Literal("-1", integer)
    assert condition("- 1") == Unary("-", Literal("1", integer))
    assert condition("?x<<e:a>") == condition("?x < <e:a>") == Compare("<", Var("x"), Iri("e:a"))


def test_a_node_knows_where_it_stands() -> None:
    written = "SELECT ?x {\n  ?x <e:p> 'a' ;\n    <e:q> ?y .\n}"
    tree = parse(written)
    said = {type(node): written[slice(*node.span)] for node in walk(tree)}  # type: ignore[attr-defined]
    assert said[Triples] == "?x <e:p> 'a' ;\n    <e:q> ?y"
    assert said[Literal] == "'a'"
    assert said[Query] == written


def test_the_columns_of_a_query_are_known_without_running_it() -> None:
    assert visible(parse("SELECT * { ?a ?b [] BIND(1 AS ?c) MINUS { ?d ?e ?f } { SELECT ?g { ?h ?i ?j } } }")) == tuple(  # type: ignore[arg-type]
        "abcg"
    )
    assert visible(parse("SELECT ?z (1 AS ?y) { ?a ?b ?c }")) == ("z", "y")  # type: ignore[arg-type]


# --- Random texts -----------------------------------------------------------------------------------------------

PIECES = [
    re.findall(r"'[^']*'|\"[^\"]*\"|<[^<>\s]*>|<<\(|\)>>|<<|>>|\{\||\|\}|[?\w:@.-]+|\S", form) for form in FORMS if form
]
POOL = [piece for form in PIECES for piece in form]


def mixed(seed: int) -> str:
    """One of the forms with a piece or two left out, doubled, or taken from another."""
    r = random.Random(seed)
    pieces = list(r.choice(PIECES))
    for _ in range(r.choice([1, 1, 2])):
        at, other = r.randrange(len(pieces)), r.choice(POOL)
        pieces[at : at + r.choice([0, 1, 1])] = r.choice([[], [other], [other], [pieces[at], pieces[at]]])
        pieces = pieces or ["ASK"]
    return " ".join(pieces)


@settings(max_examples=500)
@given(st.integers(0, 2**64))
def test_whatever_is_read_prints_back_to_the_same_tree(seed: int) -> None:
    written = mixed(seed)
    try:
        tree = parse(written, base="http://e/x")
    except SyntaxProblem as wrong:
        assert wrong.message.endswith((".", "?")) and wrong.line >= 1 and wrong.column >= 1 and not wrong.limit
        return
    assert isinstance(tree, Query | Update)
    assert parse(text(tree), base="http://e/x") == tree


@pytest.mark.soak
def test_a_hundred_thousand_texts_print_back() -> None:
    for seed in range(100_000):
        test_whatever_is_read_prints_back_to_the_same_tree.hypothesis.inner_test(seed)  # type: ignore[attr-defined]
