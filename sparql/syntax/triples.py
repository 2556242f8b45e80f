"""Terms, paths and what is said of a subject read the same in a pattern, a template and data; each allows less."""

from __future__ import annotations

from sparql.syntax.tokens import Scanner
from sparql.syntax.tree import (
    Alternative,
    Annotated,
    Annotation,
    BlankNode,
    Collection,
    Described,
    Inverse,
    Iri,
    Literal,
    Negated,
    Path,
    Property,
    Quads,
    QuadsIn,
    ReifiedTriple,
    Repeat,
    Sequence,
    Term,
    Triples,
    TripleTerm,
    Var,
)

RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
XSD = "http://www.w3.org/2001/XMLSchema#"
TYPE, FIRST, REST, NIL, REIFIES = (RDF + name for name in ("type", "first", "rest", "nil", "reifies"))
INTEGER, DECIMAL, DOUBLE, BOOLEAN = (XSD + name for name in ("integer", "decimal", "double", "boolean"))

# What a term can begin with.
TERM = frozenset(("var", "pname", "iri", "string", "number", "label", "[", "(", "long", "<<", "<<(", "TRUE", "FALSE"))


def var(s: Scanner, what: str) -> Var:
    if s.kind != "var":
        s.fail(f"expected a variable {what}".rstrip())
    found = Var(s.value[1:], (s.start, s.end))
    s.next()
    return found


def iri(s: Scanner, what: str) -> Iri:
    if s.kind == "pname":
        value = s.prefixed()
    elif s.kind == "iri":
        value = s.reference()
    else:
        s.fail(f"expected an IRI {what}".rstrip())
    found = Iri(value, (s.start, s.end))
    s.next()
    return found


def var_or_iri(s: Scanner, what: str) -> Var | Iri:
    if s.kind == "var":
        return var(s, what)
    if s.kind != "pname" and s.kind != "iri":
        s.fail(f"expected a variable or an IRI {what}".rstrip())
    return iri(s, what)


def literal(s: Scanner) -> Literal:
    """A string with its tag or type, a number, true or false."""
    start, kind, value = s.start, s.kind, s.value
    if kind == "string" or kind == "long":
        text = s.string()
        s.next()
        if s.kind == "lang":
            language, _, direction = s.value[1:].partition("--")
            if direction and direction not in ("ltr", "rtl"):
                s.stop(f"{direction} is no direction: write --ltr or --rtl.")
            s.next()
            return Literal(text, None, language, direction or None, (start, s.last))
        if s.kind == "^^":
            s.next()
            datatype = iri(s, "of a datatype behind ^^").value
            return Literal(text, None if datatype == XSD + "string" else datatype, None, None, (start, s.last))
        return Literal(text, None, None, None, (start, s.last))
    s.next()
    if kind == "number":
        exact = "e" not in value and "E" not in value
        datatype = DOUBLE if not exact else DECIMAL if "." in value else INTEGER
        return Literal(value, datatype, None, None, (start, s.last))
    return Literal(value.lower(), BOOLEAN, None, None, (start, s.last))


def term(s: Scanner, *, path: bool) -> Term:
    """A subject or an object; `path` says whether predicates in it may be paths."""
    kind = s.kind
    if kind == "var":
        found: Term = Var(s.value[1:], (s.start, s.end))
        s.next()
        return found
    if kind == "pname":
        found = Iri(s.prefixed(), (s.start, s.end))
        s.next()
        return found
    if kind == "iri":
        found = Iri(s.reference(), (s.start, s.end))
        s.next()
        return found
    if kind in ("string", "number", "long", "TRUE", "FALSE"):
        return literal(s)
    if kind == "label":
        return blank(s)
    if kind == "[":
        return _described(s, path)
    if kind == "(":
        return _collection(s, path)
    if kind == "<<(":
        return triple_term(s)
    if kind == "<<":
        return _reified(s)
    s.fail("expected a variable, an IRI, a literal or a blank node")


def blank(s: Scanner) -> BlankNode:
    """A labelled blank node, or []."""
    start = s.start
    if s.kind == "[":
        s.next()
        s.expect("]", "")
        return BlankNode(None, (start, s.last))
    label = s.value[2:]
    if label in s.spent:
        s.stop(
            f"_:{label} stands in another group too, and a blank node's label means something in one only. "
            "Use a variable."
        )
    s.labels.add(label)
    s.next()
    return BlankNode(label, (start, s.last))


def _described(s: Scanner, path: bool) -> Term:
    start = s.start
    s.next()
    if s.take("]"):
        return BlankNode(None, (start, s.last))
    s.enter()
    found = properties(s, path=path)
    s.leave()
    s.expect("]", "after what is said of this node")
    return Described(found, (start, s.last))


def _collection(s: Scanner, path: bool) -> Collection:
    start = s.start
    s.next()
    s.enter()
    items = []
    while s.kind != ")":
        items.append(term(s, path=path))
    s.leave()
    s.next()
    return Collection(tuple(items), (start, s.last))


def triple_term(s: Scanner, *, expression: bool = False) -> TripleTerm:
    """<<( s p o )>>; in an expression without blank nodes."""
    start = s.start
    s.next()
    s.enter()
    subject = _inner(s, reified=False, expression=expression)
    predicate = _inner_verb(s)
    object_ = _inner(s, reified=False, expression=expression)
    s.leave()
    s.expect(")>>", "after the object of a triple term")
    return TripleTerm(subject, predicate, object_, (start, s.last))


def _reified(s: Scanner) -> ReifiedTriple:
    start = s.start
    s.next()
    s.enter()
    subject = _inner(s, reified=True)
    predicate = _inner_verb(s)
    object_ = _inner(s, reified=True)
    reifier = _reifier(s) if s.kind == "~" else None
    s.leave()
    s.expect(">>", "after the object of a reified triple")
    return ReifiedTriple(subject, predicate, object_, reifier, (start, s.last))


def _inner(s: Scanner, *, reified: bool, expression: bool = False) -> Term:
    """The subject or object of a triple term."""
    kind = s.kind
    if kind == "<<(":
        return triple_term(s, expression=expression)
    if kind == "<<" and reified:
        return _reified(s)
    if kind == "label" or kind == "[":
        if expression:
            s.fail("expected a variable, an IRI or a literal, as blank nodes stand in no expression")
        return blank(s)
    if kind == "(" or kind == "<<" or kind not in TERM:
        s.fail("expected a variable, an IRI or a literal in a triple term")
    return term(s, path=False)


def _inner_verb(s: Scanner) -> Var | Iri:
    if s.kind == "A" and s.value == "a":
        s.next()
        return Iri(TYPE, (s.last - 1, s.last))
    return var_or_iri(s, "as predicate")


def _reifier(s: Scanner) -> Term | None:
    """What stands behind ~, if anything does."""
    s.next()
    if s.kind in ("var", "pname", "iri"):
        return var_or_iri(s, "")
    if s.kind in ("label", "["):
        return blank(s)
    # ~ alone and no ~ mean the same: a fresh reifier.
    return None


# --- Predicates -------------------------------------------------------------------------------------------------


def verb(s: Scanner, *, path: bool) -> Var | Path:
    """A predicate: in a pattern a path, elsewhere an IRI or a variable."""
    if s.kind == "var":
        return var(s, "")
    if path:
        return alternative(s)
    if s.kind == "A" and s.value == "a":
        s.next()
        return Iri(TYPE, (s.last - 1, s.last))
    if s.kind in ("pname", "iri"):
        found = iri(s, "")
        if s.kind in ("/", "|", "*", "+", "^"):
            s.fail("expected an object, as property paths stand in patterns only")
        return found
    s.fail("expected a predicate: an IRI, a variable or a")


def alternative(s: Scanner) -> Path:
    """path | path"""
    start = s.start
    first = _sequence(s)
    if s.kind != "|":
        return first
    found = [first]
    while s.take("|"):
        s.link()
        found.append(_sequence(s))
    return Alternative(tuple(found), (start, s.last))


def _sequence(s: Scanner) -> Path:
    start = s.start
    first = _step(s)
    if s.kind != "/":
        return first
    found = [first]
    while s.take("/"):
        s.link()
        found.append(_step(s))
    return Sequence(tuple(found), (start, s.last))


def _step(s: Scanner) -> Path:
    """^path, path*, path+, path? or one alone."""
    start, kind = s.start, s.kind
    if kind == "^":
        s.next()
        return Inverse(_step(s) if s.kind != "^" else s.fail("expected an IRI or ( behind ^"), (start, s.last))
    if kind == "pname":
        found: Path = Iri(s.prefixed(), (start, s.end))
        s.next()
    elif kind == "iri":
        found = Iri(s.reference(), (start, s.end))
        s.next()
    elif kind == "A" and s.value == "a":
        found = Iri(TYPE, (start, s.end))
        s.next()
    elif kind == "!":
        found = _negated(s)
    elif kind == "(":
        s.next()
        s.enter()
        found = alternative(s)
        s.leave()
        s.expect(")", "after a path in brackets")
    else:
        s.fail("expected a predicate: an IRI, a variable, a or a path")
    if s.kind == "*" or s.kind == "+" or s.kind == "?":
        found = Repeat(found, s.kind, (start, s.end))
        s.next()
    return found


def _negated(s: Scanner) -> Negated:
    start = s.start
    s.next()
    found: list[Iri | Inverse] = []
    if s.take("("):
        # !() stands in the grammar of 1.1; it excludes nothing.
        if s.kind != ")":
            found.append(_excluded(s))
            while s.take("|"):
                found.append(_excluded(s))
        if s.kind != ")":
            s.fail("expected | or ) between excluded predicates")
        s.next()
    else:
        found.append(_excluded(s))
    return Negated(tuple(found), (start, s.last))


def _excluded(s: Scanner) -> Iri | Inverse:
    start = s.start
    inverse = s.take("^")
    if s.kind == "A" and s.value == "a":
        s.next()
        found = Iri(TYPE, (s.last - 1, s.last))
    else:
        found = iri(s, "that the path excludes")
    return Inverse(found, (start, s.last)) if inverse else found


# --- Triples ----------------------------------------------------------------------------------------------------


def triples(s: Scanner, *, path: bool) -> Triples:
    """One subject with all that is said of it, up to the full stop."""
    start = s.start
    subject = term(s, path=path)
    alone = isinstance(subject, (Described, ReifiedTriple)) or (isinstance(subject, Collection) and subject.items)
    if alone and s.kind in (".", "}", "end"):
        return Triples(subject, (), (start, s.last))
    if alone and s.kind not in PREDICATE:
        # A keyword such as FILTER may follow at once.
        return Triples(subject, (), (start, s.last))
    return Triples(subject, properties(s, path=path), (start, s.last))


PREDICATE = frozenset(("var", "pname", "iri", "A", "^", "!", "("))


def properties(s: Scanner, *, path: bool) -> tuple[Property, ...]:
    """Predicates with their objects, between semicolons; at least one."""
    found = []
    while True:
        start = s.start
        predicate = verb(s, path=path)
        objects = [_object(s, predicate, path)]
        while s.kind == ",":
            s.next()
            objects.append(_object(s, predicate, path))
        found.append(Property(predicate, tuple(objects), (start, s.last)))
        if s.kind != ";":
            return tuple(found)
        while s.kind == ";":
            s.next()
        if s.kind not in PREDICATE or (s.kind == "A" and s.value != "a"):
            return tuple(found)


def _object(s: Scanner, predicate: Var | Path, path: bool) -> Term | Annotated:
    if s.kind not in TERM:
        s.fail("expected an object: a variable, an IRI, a literal or a blank node")
    found = term(s, path=path)
    if s.kind != "~" and s.kind != "{|":
        return found
    start = s.start
    inner = predicate.path if isinstance(predicate, Inverse) else predicate
    if not isinstance(inner, (Var, Iri)):
        s.stop("A property path is no triple that could be annotated. Write the path out with variables.")
    annotations = []
    while s.kind == "~" or s.kind == "{|":
        began = s.start
        reifier = _reifier(s) if s.kind == "~" else None
        said: tuple[Property, ...] = ()
        block = s.kind == "{|"
        if block:
            s.next()
            s.enter()
            said = properties(s, path=path)
            s.leave()
            s.expect("|}", "after an annotation")
        annotations.append(Annotation(reifier, said, block, (began, s.last)))
    return Annotated(found, tuple(annotations), (start, s.last))


def template(s: Scanner) -> tuple[Triples, ...]:
    """Triples between full stops, up to what cannot begin one."""
    found = []
    while s.kind in TERM:
        found.append(triples(s, path=False))
        if not s.take("."):
            break
    return tuple(found)


def quads(s: Scanner) -> Quads:
    """{ triples and GRAPH name { triples } }"""
    s.expect("{", "before triples")
    found: list[Triples | QuadsIn] = []
    while s.kind != "}":
        if s.kind == "GRAPH":
            start = s.start
            s.next()
            name = var_or_iri(s, "behind GRAPH")
            s.expect("{", "before the triples of a graph")
            inner = template(s)
            s.expect("}", "after the triples of a graph")
            found.append(QuadsIn(name, inner, (start, s.last)))
            s.take(".")
        elif s.kind in TERM:
            found += template(s)
            if s.kind != "GRAPH" and s.kind != "}":
                s.fail("expected . or } after a triple")
        else:
            s.fail("expected a triple, GRAPH or }")
    s.next()
    return tuple(found)
