"""One reading of a question is a query: what it names is joined by the roads of the graph, how it asks is its shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sparql.question.planner.asking import ENDED, Asked, Comparison, Superlative, measures
from sparql.question.planner.build import Build, Node, leaf, literal, text_of
from sparql.question.planner.linking import Cover, Mention, tail
from sparql.question.planner.names import Value
from sparql.question.planner.roads import Roads, Step, verbal
from sparql.question.planner.words import Word, stems
from sparql.question.schema import Use

_LIKELY = 0.62
"""How well a property has to be what an adjective measures."""
_KIND = 8.0
"""An entity that so many statements point to is rather a kind of thing than a thing."""
_AGENT = ("er", "or", "ers", "ors", "ist", "ists")


class Unreadable(Exception):
    """This reading comes to no query: `str()` says why."""


@dataclass(slots=True)
class Shape:
    """What is selected, and how."""

    columns: list[str] = field(default_factory=list)
    filters: list[str] = field(default_factory=list)
    having: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    aggregates: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    limit: int | None = None
    offset: int = 0
    best: tuple[str, str] | None = None
    """(MAX or MIN, variable): only rows with the end of all values, however many they are."""
    most: tuple[str, str] | None = None
    """(MAX or MIN, variable counted): only groups with the end of all counts."""


@dataclass(frozen=True, slots=True)
class Made:
    """A query that one reading comes to; `cost` is how far its roads went."""

    sparql: str
    cost: float
    words: str
    unread: tuple[int, ...]


class Reading:
    """One cover of one question, on its way to a query."""

    def __init__(self, words: Sequence[Word], asks: Asked, cover: Cover, roads: Roads) -> None:
        self.words, self.asks, self.roads = words, asks, roads
        self.build = Build(roads)
        self.shape = Shape()
        self.mentions = self._merged([one for one in cover.mentions if not (one.words == 1 and one.start in asks.open)])
        self.named = {one.ref for one in self.mentions if one.kind == "property"}
        self.unread = set(cover.unread) | {at for at in asks.open if words[at].content}
        self.where: dict[int, Node] = {}
        """The node of each mention that has one, by where it starts."""
        self.done: set[int] = set()
        self.target: Node | None = None
        self.grouped: list[Mention] = []
        """Properties by whose values is grouped."""

    def made(self) -> Made:
        """The query. Raises Unreadable."""
        if not self.mentions:
            raise Unreadable("it names nothing the graph has")
        if self.asks.transitive:
            self.build.plus = frozenset(self.named)
        self._compare_numbers()
        negated = self._negated()
        self._group()
        self._aim([one for one in self.mentions if one.start not in negated])
        # What is named is joined first, over the properties that are named; those that are left are asked for.
        for one in sorted(self.mentions, key=lambda one: (one.kind == "property", one.start)):
            if one.start not in self.done and one.start not in negated:
                self._attach(one)
        for one in self.grouped:
            self.shape.groups.append(f"?{self._leaf(self._holding(one.ref), one.ref)}")
        self._asked_how()
        self._who()
        for comparison in self.asks.comparisons:
            self._compare(comparison)
        if negated:
            self._deny([one for one in self.mentions if one.start in negated])
        for end in self.asks.superlatives:
            self._extreme(end)
        self._ordered()
        return Made(self._text(), self.build.cost, self._words(), tuple(sorted(self.unread)))

    # -- mentions -----------------------------------------------------------------------------------------------------

    def _merged(self, mentions: list[Mention]) -> list[Mention]:
        """Without a class beside a thing of that class, and a property beside one of its values."""
        gone: set[int] = set()
        for one, other in zip(mentions, mentions[1:], strict=False):
            if any(word.folded not in ("the", "called", "named") for word in self.words[one.end : other.start]):
                continue
            for thing, kind in ((one, other), (other, one)):
                of_class = thing.entity is not None and set(thing.entity.classes) & self.roads.family(kind.ref)
                of_property = any(value.property == kind.ref for value in thing.values)
                if (kind.kind == "class" and of_class) or (kind.kind == "property" and of_property):
                    gone.add(kind.start)
                elif kind.kind == "class" and thing is one and thing.kind == "entity":
                    self.build.cost += 0.4  # `the Orders team` is a team called so, where there is one
        for one in mentions:
            # `which repository is it defined in`: the property says already what it leads to.
            if one.kind == "class" and not any(
                self.roads.schema.classes[each].instances for each in self.roads.family(one.ref)
            ):
                ranges = [
                    self.roads.schema.properties[other.ref].range for other in mentions if other.kind == "property"
                ]
                if any(one.ref in each for each in ranges):
                    gone.add(one.start)
        return [one for one in mentions if one.start not in gone]

    def _after(self, at: int, *kinds: str, within: int = 4) -> Mention | None:
        return next((one for one in self.mentions if at <= one.start <= at + within and one.kind in kinds), None)

    def _before(self, at: int, *kinds: str, within: int = 4) -> Mention | None:
        found = [one for one in self.mentions if at - within <= one.end <= at and one.kind in kinds]
        return found[-1] if found else None

    def _compare_numbers(self) -> None:
        """A bare number beside a property is its value."""
        for at in sorted(self.unread):
            number = self.words[at].number
            if number is None:
                continue
            near = self._before(at, "property", within=2) or self._after(at + 1, "property", within=1)
            if near is not None:
                self.asks.comparisons.append(Comparison(at, at + 1, "=", number))
                self.unread.discard(at)

    # -- what is asked for --------------------------------------------------------------------------------------------

    def _group(self) -> None:
        for at in self.asks.groups:
            one = self._after(at, "class", "property", "entity", within=2)
            if one is None:
                continue
            if one.kind == "class":
                node = self._class(one)
                self.shape.groups.append(node.text)
                self.done.add(one.start)
            elif one.kind == "property":
                self.grouped.append(one)
                self.done.add(one.start)

    def _aim(self, mentions: list[Mention]) -> None:
        """The first node: what is asked for, or what it is asked about."""
        left = [one for one in mentions if one.start not in self.done]
        if not left:
            if self.build.nodes:
                self.target = self.build.nodes[0]
                return
            raise Unreadable("it names nothing that is asked for")
        first = self._first(left)
        if first.kind == "class" and self.build.nodes:
            self._attach(first)
            self.target = self.where[first.start]
        elif first.kind == "class":
            self.target = self._class(first)
            self.done.add(first.start)
        elif first.kind == "property":
            self._aim_property(first, left)
        elif first.kind == "entity" and self.asks.form != "ask":
            self._aim_entity(first, left)
        elif first.kind == "value":
            self._aim_value(first)
        else:
            self._attach(first)
            self.target = self.build.nodes[0]
        if self.target is None:
            self.target = self.build.nodes[0]

    def _first(self, left: list[Mention]) -> Mention:
        """The mention that is asked for."""
        if self.asks.head == "who" and self.asks.form == "list":
            persons = [one for one in left if one.kind == "class" and self.roads.person(one.ref)]
            if persons and persons[0] is left[0]:
                return persons[0]
            if left[0].kind == "class":
                return next((one for one in left if one.kind != "class"), left[0])
        if left[0].kind == "property" and self._measured(left[0]) and len(left) > 1:
            return left[1]  # `tier 1 services`
        if self.asks.form == "ask" and left[0].kind == "property":
            return next((one for one in left if one.kind in ("entity", "class")), left[0])
        return left[0]

    def _aim_property(self, one: Mention, left: list[Mention]) -> None:
        """Its value is asked for, of what else is named; or, of `who`, the one who has it."""
        self.build.cost += 0.2 if self.asks.head == "which" else 0.0  # which things, rather than which values
        use = self._use(one.ref)
        rest = [other for other in left if other is not one]
        about = next((other for other in rest if other.kind in ("entity", "class", "value")), None)
        inverse = self._inverse(one, about)
        link = next((found for found in use.ranges if not found.literal), None)
        if link is None or link.iri not in self.roads.schema.classes:
            if about is None and self.build.nodes:
                node = self._holding(one.ref)
            elif about is None:
                node = self.build.node(frozenset({use.class_}), hint=self._called(use.class_))
            else:
                if about.kind == "value":
                    node = self.build.node(frozenset({use.class_}), hint=self._called(use.class_))
                else:
                    node = self._start(about)
            node = self._holder(node, one.ref)
            self.target = node
            if self.asks.form in ("AVG", "SUM"):
                self._aggregate(one, node)
            elif self.asks.head == "who" or self.asks.form == "count" and link is None and about is None:
                self.done.discard(one.start)
            else:
                self.shape.columns.append(f"?{self._leaf(node, one.ref)}")
            self.done.add(one.start)
            return
        side = frozenset({use.class_}) if inverse else frozenset(
            found.iri for found in use.ranges if not found.literal and found.iri in self.roads.schema.classes
        )  # fmt: skip
        self.target = self.build.node(side, hint=self._called(next(iter(sorted(side)))))
        self.where[one.start] = self.target
        if any(other.kind == "property" and self._links(other.ref) for other in rest):
            self.done.add(one.start)  # the road to what is named goes over both
            return
        if about is None:
            other = frozenset({use.class_}) if not inverse else frozenset({link.iri})
            node = self.build.node(other, hint=self._called(next(iter(other))))
            self._join(self.target, one.ref, node, forward=inverse)
            self.done.add(one.start)
            return
        if about.kind in ("entity", "class"):
            node = self._start(about)
            steps = self.roads.steps(node.classes)
            fits = [step for step in steps if step.property == one.ref and step.forward != inverse]
            other_way = [step for step in steps if step.property == one.ref and step.forward == inverse]
            if fits:
                self._join(node, one.ref, self.target, forward=not inverse)
                self.done.add(one.start)
            elif other_way:
                self.target.classes = frozenset(step.to for step in other_way)
                self._join(node, one.ref, self.target, forward=inverse)
                self.done.add(one.start)
            else:
                # It is had by something that is joined to what is named: the manager of a department's people.
                middle = self.build.node(
                    frozenset({use.class_}) if not inverse else frozenset({link.iri}),
                    hint=self._called(use.class_ if not inverse else link.iri),
                )
                self._join(middle, one.ref, self.target, forward=not inverse)
                self._road(node, middle.classes, middle)
                self.done.add(one.start)

    def _aim_entity(self, one: Mention, left: list[Mention]) -> None:
        """The things of that kind, where a set is asked for; else the thing itself."""
        assert one.entity is not None
        rest = [other for other in left if other is not one]
        wants_set = bool(self.asks.superlatives) or self.asks.form == "count" or self.asks.head in ("which", "who")
        properties = [other for other in rest if other.kind == "property"]
        if any(not self._links(other.ref) for other in properties) and self.asks.form == "list":
            wants_set = bool(self.asks.superlatives)  # which value, rather than which things
        kind = max((self.roads.sizes(c) for c in one.entity.classes), default=0.0)
        if not rest and self.asks.measure:
            self.target = self._start(one)
            return
        alone = not rest and not self.asks.superlatives and self.asks.form == "list"
        person = any(self.roads.person(each) for each in one.entity.classes)
        if alone and kind < _KIND and (self.asks.head in ("what", "") or (self.asks.head == "who" and person)):
            node = self._start(one)
            self.target = node
            self._describe(node)
            return
        if wants_set or (kind >= _KIND and not properties) or not rest:
            node = self._start(one)
            steps = self.roads.steps(node.classes)
            if self.asks.head == "who":
                steps = {step: n for step, n in steps.items() if self.roads.person(step.to)} or steps
            named = {step: n for step, n in steps.items() if step.property in self.named}
            back = named or {step: n for step, n in steps.items() if not step.forward} or steps
            if not back:
                raise Unreadable(f"nothing is said with {one.entity.label}")
            step = max(back.items(), key=lambda pair: (pair[1], pair[0].property))[0]
            self.target = self.build.node(frozenset({step.to}), hint=self._called(step.to))
            self._join(node, step.property, self.target, forward=step.forward)
            if kind < _KIND and self.asks.head != "who":
                self.build.cost += 1.5  # a set of one
            return
        self.target = self._start(one)

    def _aim_value(self, one: Mention) -> None:
        value = one.values[0]
        self.target = self.build.node(frozenset({value.class_}), hint=self._called(value.class_))
        self._attach(one)

    def _describe(self, node: Node) -> None:
        property, value = self.build.variable("property"), self.build.variable("value")
        self.build.lines.append(f"{node.text} ?{property} ?{value} .")
        self.shape.columns += [f"?{property}", f"?{value}"]

    def _start(self, one: Mention) -> Node:
        self.done.add(one.start)
        if one.kind == "class":
            return self._class(one)
        assert one.entity is not None
        self._single([one])
        node = self.build.known(one.entity.iri, one.entity.classes)
        self.where[one.start] = node
        return node

    def _single(self, some: list[Mention]) -> None:
        """A superlative of one thing is a poor reading."""
        if any(each.end <= some[0].start <= each.end + 1 for each in self.asks.superlatives) and not self._kind(
            some[0]
        ):
            self.build.cost += 1.5

    def _class(self, one: Mention) -> Node:
        node = self.build.node(
            frozenset({one.ref}), hint=self._called(one.ref), said=one.ref, key=("class", one.ref, one.start)
        )
        self.where[one.start] = node
        return node

    def _called(self, iri: str) -> str:
        one = self.roads.schema.classes.get(iri)
        return one.name.label.lower() if one is not None else tail(iri).lower()

    # -- properties ---------------------------------------------------------------------------------------------------

    def _use(self, property: str, classes: Iterable[str] = ()) -> Use:
        """The use of a property that is meant: of these classes if there is one, else the commonest."""
        family = self.roads.families(classes)
        uses = [use for use in self.roads.schema.uses if use.property == property and use.statements]
        if not uses:
            raise Unreadable(f"nothing has {self.roads.schema.properties[property].name.label}")
        return max(uses, key=lambda use: (use.class_ in family, use.statements, use.class_))

    def _inverse(self, one: Mention, about: Mention | None) -> bool:
        """Whether what is asked for is the subject of the property, and not its object."""
        property = self.roads.schema.properties[one.ref]
        word = self.words[one.end - 1].folded
        agent = property.name.label.lower().split()[-1].endswith(_AGENT) if property.name.label else False
        if agent:
            # `has manager`: the manager of somebody is the object; so is whoever manages somebody.
            passive = one.end < len(self.words) and self.words[one.end].folded == "by"
            asks_who = self.asks.head == "who" or not word.endswith(_AGENT)
            return not asks_who and passive
        if not verbal(property):
            return about is not None and self.asks.head == "who" and self._adjective(one)
        passive = one.end < len(self.words) and self.words[one.end].folded == "by"
        before = about is not None and about.start < one.start
        return (not before) != passive

    def _adjective(self, one: Mention) -> bool:
        """Whether the property stands before what it is about, as in `who has expertise in X`."""
        before = {word.folded for word in self.words[max(0, one.start - 2) : one.start]}
        return bool(before & {"has", "have", "with", "whose"})

    def _links(self, property: str) -> bool:
        """Whether the property leads to things, and not to values."""
        return any(not found.literal for found in self._use(property).ranges)

    def _holder(self, node: Node, property: str) -> Node:
        """The node that has the property: this one, or one that a road from it leads to."""
        if any(use.property == property for use in self.roads.uses(node.classes)):
            return node
        classes = {use.class_ for use in self.roads.schema.uses if use.property == property and use.statements}
        return self._road(node, classes)

    def _road(self, start: Node, goal: Iterable[str], end: Node | None = None) -> Node:
        found = self.roads.road(start.classes, self.roads.families(goal), self.named)
        if found is None:
            raise Unreadable("no statement joins what it names")
        self.build.cost += found[0]
        return self.build.go(start, found[1], end)

    def _join(self, start: Node, property: str, end: Node, *, forward: bool) -> None:
        self.build.go(start, [Step(property, forward, next(iter(sorted(end.classes)), ""))], end)

    def _leaf(self, node: Node, property: str) -> str:
        """The variable of what a property comes to: its number, for one that leads to a thing that has one."""
        use = self._use(property, node.classes)
        path = leaf(self.roads, use)
        name = self.roads.schema.properties[property].name.label
        if len(path) < 2:
            return self.build.value(node, property, hint=name)
        middle = self.build.value(node, path[0], hint=name)
        inner = Node(middle, frozenset(found.iri for found in use.ranges if not found.literal))
        return self.build.value(inner, path[1], hint=f"{name} value")

    # -- the rest of what is named ------------------------------------------------------------------------------------

    def _attach(self, one: Mention) -> None:
        """The mention is part of the query, joined to what is there by the cheapest road."""
        self.done.add(one.start)
        if one.kind == "property":
            self._attach_property(one)
        elif one.kind == "value":
            self._attach_values([one, *self._others(one)])
        elif one.kind == "class":
            self._attach_class(one)
        else:
            self._attach_entities([one, *self._others(one)])

    def _others(self, one: Mention) -> list[Mention]:
        """The mentions after this one that are other choices for the same: `french or german`."""
        found: list[Mention] = []
        last = one
        for other in self.mentions:
            if other.start <= last.start or other.kind != one.kind or other.start in self.done:
                continue
            between = [word.folded for word in self.words[last.end : other.start]]
            if between != ["or"] and (between or not found):
                break
            alike = (
                {value.property for value in one.values} & {value.property for value in other.values}
                if one.kind == "value"
                else one.entity is not None and other.entity is not None and one.entity.classes == other.entity.classes
            )
            if not alike:
                break
            found.append(other)
            self.done.add(other.start)
            last = other
        return found

    def _nearest(self, goal: Iterable[str], near: int) -> tuple[Node, tuple[Step, ...], float]:
        """The node that the cheapest road to a goal starts at."""
        wanted = self.roads.families(goal)
        best: tuple[float, int, Node, tuple[Step, ...]] | None = None
        for number, node in enumerate(self.build.nodes):
            if not node.classes:
                continue
            found = self.roads.road(node.classes, wanted, self.named)
            open_ = {
                one.ref
                for one in self.mentions
                if one.kind == "property"
                and one.ref not in self.build.used
                and one.start < near
                and one.start not in self.done
            }
            if found is not None and open_ and not any(step.property in open_ for step in found[1]):
                # A property that is named on the way is gone over, when that is not much further.
                over = self.roads.road(node.classes, wanted, self.named, open_)
                if over is not None and over[0] <= found[0] + 1.3:
                    found = (found[0], over[1])
            if found is not None:
                away = 0.05 * number + (0.0 if node is self.target else 0.02)
                if best is None or (found[0] + away, number) < best[:2]:
                    best = (found[0] + away, number, node, found[1])
        if best is None:
            raise Unreadable("no statement joins what it names")
        return best[2], best[3], best[0]

    def _attach_class(self, one: Mention) -> None:
        family = self.roads.family(one.ref)
        for node in self.build.nodes:
            if node.term is None and node.said is None and node.classes and node.classes <= family | {one.ref}:
                node.said = one.ref
                self.where[one.start] = node
                return
        for start, node in self.where.items():
            # The same class said again is the same thing: `hardware with ... hardware`.
            if node.said == one.ref and start != one.start and self._same(start, one):
                self.where[one.start] = node
                return
        node, steps, cost = self._nearest([one.ref], one.start)
        end = self._class(one)
        end.classes = frozenset({steps[-1].to}) & family or frozenset({one.ref})
        self.build.cost += cost
        self.build.go(node, steps, end)

    def _same(self, start: int, one: Mention) -> bool:
        before = {word.folded for word in self.words[max(0, one.start - 2) : one.start]}
        return bool(before & {"the", "that", "this", "these", "those"}) or start in (
            other.start for other in self.mentions if other.ref == one.ref and other.end == one.start
        )

    def _attach_entities(self, some: list[Mention]) -> None:
        entities = [one.entity for one in some if one.entity is not None]
        goal = set(entities[0].classes)
        for node in self.build.nodes:
            if node.term is None and node.classes and node.classes <= self.roads.families(goal) and node is self.target:
                # `which services ... cart`: another of the same class is another thing.
                break
        node, steps, cost = self._nearest(goal, some[0].start)
        self.build.cost += cost
        self._single(some)
        if len(entities) == 1:
            end = self.build.known(entities[0].iri, entities[0].classes)
            self.where[some[0].start] = end
            steps = self._turned(node, steps, some[0])
            self.build.go(node, steps, end)
            return
        end = self.build.node(frozenset(goal), hint=self._called(entities[0].classes[0]))
        self.build.go(node, steps, end)
        listed = ", ".join(f"<{one.iri}>" for one in entities)
        self.shape.filters.append(f"{end.text} IN ({listed})")

    def _kind(self, one: Mention) -> bool:
        """Whether a thing is rather a kind of things."""
        return one.entity is not None and max(map(self.roads.sizes, one.entity.classes), default=0.0) >= _KIND

    def _turned(self, node: Node, steps: tuple[Step, ...], one: Mention) -> tuple[Step, ...]:
        """The road with a step that could go both ways turned as the words say: `depends on X`, `what X depends on`."""
        if len(steps) != 1:
            return steps
        step = steps[0]
        both = [
            other for other in self.roads.steps(node.classes) if other.property == step.property and other.to == step.to
        ]
        if len(both) < 2 or step.property not in self.named:
            return steps
        mention = next((m for m in self.mentions if m.kind == "property" and m.ref == step.property), None)
        if mention is None:
            return steps
        property = self.roads.schema.properties[step.property]
        passive = mention.end < len(self.words) and self.words[mention.end].folded == "by"
        after = one.start > mention.start
        forward = (after if verbal(property) else not after) != passive
        if not verbal(property) and after:
            forward = False
        return (Step(step.property, forward, step.to),)

    def _attach_values(self, some: list[Mention]) -> None:
        best: tuple[float, Node, Value] | None = None
        for value in some[0].values:
            named = 0.0 if value.property in self.named else 0.1
            for number, node in enumerate(self.build.nodes):
                if node.term is not None or not node.classes:
                    continue
                if value.class_ in self.roads.families(node.classes):
                    cost = named + 0.02 * number
                else:
                    road = self.roads.road(node.classes, self.roads.family(value.class_), self.named)
                    if road is None:
                        continue
                    cost = road[0] + named + 0.05 * number
                cost -= value.score * 0.1
                if best is None or cost < best[0]:
                    best = (cost, node, value)
        if best is None:
            raise Unreadable("no statement joins what it names")
        cost, node, value = best
        if value.class_ not in self.roads.families(node.classes):
            self.build.cost += cost
            node = self._road(node, [value.class_])
        terms = [literal(value.term)]
        for other in some[1:]:
            terms += [literal(found.term) for found in other.values if found.property == value.property][:1]
        if len(terms) == 1:
            self.build.fixed(node, value.property, terms[0])
        else:
            name = self.build.value(node, value.property, hint=self.roads.schema.properties[value.property].name.label)
            self.shape.filters.append(f"?{name} IN ({', '.join(terms)})")
        self.where[some[0].start] = node

    def _attach_property(self, one: Mention) -> None:
        if one.ref in self.build.used:
            return
        if self._measured(one):
            return
        if self.asks.form in ("AVG", "SUM") and not self.shape.aggregates:
            self._aggregate(one, self._holding(one.ref))
            return
        node = self._holding(one.ref)
        use = self._use(one.ref, node.classes)
        if self.asks.form == "ask" or (self.asks.form == "count" and not self.shape.groups):
            self.build.value(node, one.ref, hint=self.roads.schema.properties[one.ref].name.label)
            return
        if any(found.literal for found in use.ranges) or leaf(self.roads, use) or not use.ranges:
            self.shape.columns.append(f"?{self._leaf(node, one.ref)}")
        elif node is not self.target:
            self.build.value(node, one.ref, hint=self.roads.schema.properties[one.ref].name.label)
        else:
            self.build.cost += 0.3
            self.shape.columns.append(
                f"?{self.build.value(node, one.ref, hint=self.roads.schema.properties[one.ref].name.label)}"
            )

    def _measured(self, one: Mention) -> bool:
        """Whether a property is only named for what is compared or ordered by it."""
        compared = any(
            each.at - 4 <= one.end <= each.at or each.end <= one.start <= each.end + 1 for each in self.asks.comparisons
        )
        most = any(not each.of and each.end <= one.start <= each.end + 1 for each in self.asks.superlatives)
        return compared or most or (self.asks.order is not None and one.start >= self.asks.order[0])

    def _holding(self, property: str) -> Node:
        """The node of the query that has a property, or one that is joined to it."""
        nodes = [node for node in self.build.nodes if node.classes]
        nodes.sort(key=lambda node: node is not self.target)
        for node in nodes:
            if any(use.property == property for use in self.roads.uses(node.classes)):
                return node
        classes = {use.class_ for use in self.roads.schema.uses if use.property == property and use.statements}
        if not classes:
            raise Unreadable(f"nothing has {self.roads.schema.properties[property].name.label}")
        node, steps, cost = self._nearest(classes, 0)
        self.build.cost += cost
        return self.build.go(node, steps)

    # -- numbers, dates and ends --------------------------------------------------------------------------------------

    def _aggregate(self, one: Mention, node: Node) -> None:
        variable = self._leaf(node, one.ref)
        name = self.build.variable(f"{self.asks.form.lower()} {self.roads.schema.properties[one.ref].name.label}")
        self.shape.aggregates.append(f"({self.asks.form}(?{variable}) AS ?{name})")

    def _measure(self, of: tuple[str, ...], *, timely: bool) -> str | None:
        """The variable of the property that an adjective measures, on a node of the query or one beside it."""
        best: tuple[float, Node, tuple[Step, ...], Use] | None = None
        for number, node in enumerate(
            sorted((n for n in self.build.nodes if n.classes), key=lambda n: n is not self.target)
        ):
            places: list[tuple[tuple[Step, ...], frozenset[str], float]] = [((), node.classes, 0.02 * number)]
            places += [((step,), frozenset({step.to}), 0.2) for step in self.roads.steps(node.classes)]
            for steps, classes, away in places:
                for use in self.roads.uses(classes):
                    fits = self.roads.timely(use) if timely else bool(leaf(self.roads, use)) or self.roads.timely(use)
                    if not fits or use.property not in self.roads.schema.properties:
                        continue
                    name = self.roads.schema.properties[use.property].name
                    score = max(measures(of, stems(name.label)), measures(of, stems(tail(use.property)))) - away
                    if score >= _LIKELY and (best is None or score > best[0]):
                        best = (score, node, steps, use)
        if best is None:
            return None
        _, node, steps, use = best
        return self._leaf(self.build.go(node, steps) if steps else node, use.property)

    def _near(self, at: int, end: int, *, timely: bool) -> tuple[Node, Use] | None:
        """The property named beside a comparison that it can be of."""
        near = [
            one
            for one in self.mentions
            if one.kind == "property" and (at - 6 <= one.end <= at or end <= one.start <= end + 2)
        ]
        for one in sorted(near, key=lambda one: min(abs(one.end - at), abs(one.start - end))):
            try:
                node = self._holding(one.ref)
            except Unreadable:
                continue
            use = self._use(one.ref, node.classes)
            if (timely and self.roads.timely(use)) or (not timely and leaf(self.roads, use)):
                return node, use
        return None

    def _asked_how(self) -> None:
        """`how big`: the measure is asked for; `open`: what would say that it is over is not said."""
        if self.asks.measure:
            variable = self._measure(self.asks.measure, timely=False)
            if variable is None:
                raise Unreadable("nothing that it names is measured so")
            self.shape.columns.append(f"?{variable}")
        for at in self.asks.open:
            self._unended(at)

    def _unended(self, at: int) -> None:
        assert self.target is not None
        for use in self.roads.uses(self.target.classes):
            name = self.roads.schema.properties.get(use.property)
            if name is not None and set(stems(name.name.label)) & set(ENDED):
                self.build.lines.append(
                    f"FILTER NOT EXISTS {{ {self.target.text} <{use.property}> ?{self.build.variable('any')} }}"
                )
                self.unread.discard(at)
                return

    def _who(self) -> None:
        """Who asks for a person is not told of a thing that a person did."""
        target = self.target
        if self.asks.head != "who" or self.asks.form != "list" or target is None or self.shape.columns:
            return
        if not target.classes or any(self.roads.person(one) for one in target.classes):
            return
        steps = {step: n for step, n in self.roads.steps(target.classes).items() if self.roads.person(step.to)}
        if not steps:
            return
        step = max(
            steps.items(), key=lambda pair: (pair[0].property in self.named, pair[0].forward, pair[1], pair[0].property)
        )
        self.target = self.build.go(target, [step[0]])

    def _compare(self, one: Comparison) -> None:
        timely = one.days is not None
        variable = self._measure(one.of, timely=timely) if one.of else None
        if variable is None:
            found = self._near(one.at, one.end, timely=timely)
            if found is not None:
                variable = self._leaf(found[0], found[1].property)
        if variable is None and not timely and self._count_compare(one):
            return
        if variable is None:
            variable = self._only(one, timely=timely)
        if variable is None:
            raise Unreadable("nothing that it names can be compared so")
        if one.days is None:
            assert one.number is not None
            self.shape.filters.append(f"?{variable} {one.operator} {text_of(one.number)}")
            return
        self._within(variable, one)

    def _within(self, variable: str, one: Comparison) -> None:
        assert one.days is not None
        first, after = (f'"{day.isoformat()}"' for day in one.days)
        # Dates and moments are compared by their spelling: both begin with the day.
        value = f"STR(?{variable})"
        operator = one.operator
        if one.of and operator in ("<", ">"):
            operator = operator
        lines = {
            "in": [f"{value} >= {first}", f"{value} < {after}"],
            "=": [f"{value} >= {first}", f"{value} < {after}"],
            ">": [f"{value} >= {after}"],
            ">=": [f"{value} >= {first}"],
            "<": [f"{value} < {first}"],
            "<=": [f"{value} < {after}"],
        }
        self.shape.filters += lines[operator]

    def _only(self, one: Comparison, *, timely: bool) -> str | None:
        """The one property of what is asked about that can be compared so: the best known, for dates."""
        nodes = sorted((node for node in self.build.nodes if node.classes), key=lambda node: node is not self.target)
        said = self._before(one.at, "property", within=3)
        if said is not None:
            # `were deployed in May`: when that was, which whoever was deployed does not say.
            nodes.sort(key=lambda node: not any(use.property == said.ref for use in self.roads.uses(node.classes)))
        for node in nodes:
            uses: dict[str, Use] = {}
            for use in self.roads.uses(node.classes):
                if self.roads.timely(use) if timely else bool(leaf(self.roads, use)):
                    uses.setdefault(use.property, use)
            if len(uses) == 1 or (timely and uses):
                return self._leaf(node, self._verb_date(uses, one) or next(iter(uses)))
        return None

    def _verb_date(self, uses: dict[str, Use], one: Comparison) -> str | None:
        """The date property that a word before the date has the stem of: `launched in`, `joined since`."""
        near = {word.stem for word in self.words[max(0, one.at - 5) : one.at]}
        for property in uses:
            if set(stems(self.roads.schema.properties[property].name.label)) & near:
                return property
        return None

    def _count_compare(self, one: Comparison) -> bool:
        """`more than three services`: how many there are is compared."""
        counted = self._after(one.end, "class", "entity", within=1)
        if counted is None or self.target is None or one.number is None:
            return False
        node = self.where.get(counted.start)
        if node is None or node is self.target or node.term is not None:
            return False
        self.shape.having.append(f"COUNT(DISTINCT {node.text}) {one.operator} {text_of(one.number)}")
        if not self.shape.groups:
            self.shape.groups.append(self.target.text)
        return True

    def _extreme(self, one: Superlative) -> None:
        variable = self._measure(one.of, timely=False) if one.of else None
        if variable is None and not one.of:
            near = self._after(one.end, "property", within=1)
            if near is not None:
                node = self._holding(near.ref)
                use = self._use(near.ref, node.classes)
                if leaf(self.roads, use) or self.roads.timely(use):
                    variable = self._leaf(node, near.ref)
        if variable is None and not one.of:
            counted = self._after(one.end, "class", "entity", "property", within=2)
            self.shape.most = ("MAX" if one.way == "desc" else "MIN", self._counting(counted).text)
            self.shape.limit = one.most if one.most > 1 else None
            return
        if variable is None:
            raise Unreadable("nothing that it names is measured so")
        way = "MAX" if one.way == "desc" else "MIN"
        if self.shape.groups or self.asks.form in ("MIN", "MAX"):
            name = self.build.variable(f"{way.lower()} {variable}")
            self.shape.aggregates.append(f"({way}(?{variable}) AS ?{name})")
        elif one.most == 1 and not one.skip and self.shape.best is None and len(self.asks.superlatives) == 1:
            self.shape.best = (way, variable)
        else:
            self.shape.order.append(f"{'DESC' if one.way == 'desc' else 'ASC'}(?{variable})")
            self.shape.limit, self.shape.offset = one.most, one.skip

    def _counting(self, named: Mention | None) -> Node:
        """The node that is counted for each of what is asked for."""
        node = self.where.get(named.start) if named is not None else None
        if named is not None and named.kind == "property" and node is None:
            holder = self._holding(named.ref)
            called = self.roads.schema.properties[named.ref].name.label
            return Node(self.build.value(holder, named.ref, hint=called), frozenset())
        if node is not None and node is not self.target and node.term is None:
            return node
        others = [each for each in self.build.nodes if each is not self.target and each.term is None]
        if not others or self.target is None:
            raise Unreadable("nothing that it names can be counted")
        return others[0]

    def _ordered(self) -> None:
        if self.asks.order is None:
            return
        at, down = self.asks.order
        one = self._after(at, "property", within=1)
        if one is None:
            return
        variable = self._leaf(self._holding(one.ref), one.ref)
        self.shape.order.append(f"{'DESC' if down else 'ASC'}(?{variable})")

    # -- negation -----------------------------------------------------------------------------------------------------

    def _negated(self) -> set[int]:
        """Where the mentions start that a negation is about: the first after it, and what hangs on that."""
        found: set[int] = set()
        for at in self.asks.negations:
            after = [one for one in self.mentions if one.start > at]
            if self.asks.comparisons and any(each.at >= at and each.at - at <= 2 for each in self.asks.comparisons):
                continue
            if not after:
                continue
            found.add(after[0].start)
            for one, other in zip(after, after[1:], strict=False):
                between = [word.folded for word in self.words[one.end : other.start]]
                if between not in (["or"], ["nor"], ["and"], []) or other.kind != one.kind or one.kind == "property":
                    break
                found.add(other.start)
            if after[0].kind == "property":
                found |= {
                    one.start
                    for one in after[1:2]
                    if one.kind in ("entity", "value", "class") and one.start - after[0].end <= 3
                }
        return found

    def _deny(self, mentions: list[Mention]) -> None:
        assert self.target is not None
        lines, nodes = len(self.build.lines), len(self.build.nodes)
        filters = len(self.shape.filters)
        used = set(self.build.used)
        self.build.used -= {one.ref for one in mentions}
        columns = list(self.shape.columns)
        only = [one for one in mentions if one.kind == "property"]
        others = [one for one in mentions if one.kind != "property"]
        if others:
            for one in others:
                self._attach(one)
        for one in only:
            if one.ref not in self.build.used:
                self._deny_property(one)
        inner = [line for node in self.build.nodes[nodes:] for line in self.build.typed(node)] + self.build.lines[
            lines:
        ]
        inner += [f"FILTER({each})" for each in self.shape.filters[filters:]]
        del self.build.lines[lines:], self.build.nodes[nodes:], self.shape.filters[filters:]
        self.shape.columns = columns
        self.build.used |= used
        if not inner:
            raise Unreadable("what it denies is not said of anything")
        self.build.lines.append(f"FILTER NOT EXISTS {{ {' '.join(inner)} }}")

    def _deny_property(self, one: Mention) -> None:
        assert self.target is not None
        uses = [use for use in self.roads.uses(self.target.classes) if use.property == one.ref]
        back = [step for step in self.roads.steps(self.target.classes) if step.property == one.ref and not step.forward]
        if not uses and not back:
            raise Unreadable(f"nothing of that kind has {self.roads.schema.properties[one.ref].name.label}")
        inverse = bool(back) and (not uses or self._subject_of(one))
        name = self.build.variable("any")
        predicate = f"<{one.ref}>"
        self.build.lines.append(
            f"?{name} {predicate} {self.target.text} ." if inverse else f"{self.target.text} {predicate} ?{name} ."
        )
        self.build.used.add(one.ref)

    def _subject_of(self, one: Mention) -> bool:
        """Whether who does what the property names is its object: `manages`, of `has manager`."""
        property = self.roads.schema.properties[one.ref]
        word = self.words[one.end - 1].folded
        agent = property.name.label.lower().split()[-1].endswith(_AGENT) if property.name.label else False
        return agent and not word.endswith(_AGENT)

    # -- the text -----------------------------------------------------------------------------------------------------

    def _text(self) -> str:
        shape, target = self.shape, self.target
        assert target is not None
        body = "\n  ".join([self.build.body(), *(f"FILTER({one})" for one in shape.filters)])
        if self.asks.form == "ask":
            return f"ASK {{\n  {body}\n}}"
        if shape.most is not None:
            return self._counted(body)
        if self.asks.form == "count" and not shape.having:
            return self._count(body)
        if shape.aggregates:
            groups = [one for one in shape.groups if one.startswith("?")]
            tail_ = f" GROUP BY {' '.join(groups)}" if groups else ""
            return f"SELECT {' '.join([*groups, *shape.aggregates])} {{\n  {body}\n}}{tail_}{self._having()}"
        columns = shape.columns or [target.text]
        if shape.columns and self._keeps_target():
            columns = [target.text, *shape.columns]
        columns = [one for one in dict.fromkeys(columns) if one.startswith("?")]
        if not columns:
            raise Unreadable("it asks for what it names")
        if shape.having:
            inner = f"SELECT {' '.join(columns)} {{\n  {body}\n}} GROUP BY {' '.join(columns)}{self._having()}"
            if self.asks.form == "count":
                return f"SELECT (COUNT(*) AS ?count) {{ {{ {inner} }} }}"
            return inner
        if shape.best is not None:
            way, variable = shape.best
            end = self.build.variable(f"{way.lower()} {variable}")
            body += (
                f"\n  {{ SELECT ({way}(?{variable}) AS ?{end}) {{\n  {body}\n  }} }}\n  FILTER(?{variable} = ?{end})"
            )
        order = f" ORDER BY {' '.join(shape.order)}" if shape.order else ""
        limit = f" LIMIT {shape.limit}" if shape.limit is not None else ""
        offset = f" OFFSET {shape.offset}" if shape.offset else ""
        kind = "" if shape.order else "DISTINCT "
        return f"SELECT {kind}{' '.join(columns)} {{\n  {body}\n}}{order}{limit}{offset}"

    def _keeps_target(self) -> bool:
        """Whether the things themselves are columns beside what is asked of them: where there can be several."""
        target = self.target
        return (
            target is not None and target.term is None and target.said is not None and self.asks.head not in ("what",)
        )

    def _count(self, body: str) -> str:
        target = self.target
        assert target is not None
        counted = target.text if target.term is None else (self.shape.columns or ["*"])[0]
        groups = [one for one in self.shape.groups if one.startswith("?") and one != counted]
        expression = f"(COUNT(DISTINCT {counted}) AS ?{self.build.variable('count')})"
        if groups:
            return (
                f"SELECT {' '.join(groups)} {expression} {{\n  {body}\n}} GROUP BY {' '.join(groups)}{self._having()}"
            )
        return f"SELECT {expression} {{\n  {body}\n}}"

    def _counted(self, body: str) -> str:
        assert self.shape.most is not None and self.target is not None
        way, counted = self.shape.most
        target = self.target.text
        each = f"SELECT {target} (COUNT(DISTINCT {counted}) AS ?%s) {{\n  {body}\n  }} GROUP BY {target}"
        if self.shape.limit is not None:
            order = "DESC" if way == "MAX" else "ASC"
            inner = each % "number"
            return f"SELECT {target} {{ {{ {inner} }} }} ORDER BY {order}(?number) LIMIT {self.shape.limit}"
        best = f"SELECT ({way}(?n) AS ?number) {{ {{ {each % 'n'} }} }}"
        return f"SELECT {target} {{ {{ {each % 'number'} }} {{ {best} }} }}"

    def _having(self) -> str:
        return f" HAVING ({' && '.join(self.shape.having)})" if self.shape.having else ""

    def _words(self) -> str:
        """The reading in words."""
        schema = self.roads.schema
        parts = []
        for one in self.mentions:
            if one.kind == "class":
                parts.append(schema.classes[one.ref].name.label)
            elif one.kind == "property":
                parts.append(schema.properties[one.ref].name.label)
            elif one.entity is not None:
                parts.append(f"“{one.entity.label}”")
            else:
                value = one.values[0]
                parts.append(f"{schema.properties[value.property].name.label} “{getattr(value.term, 'value', '')}”")
        return f"{self.asks.form}: {', '.join(parts)}"
