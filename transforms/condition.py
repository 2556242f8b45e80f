"""A condition is a small expression over columns, read by Python's own parser and nothing else of Python.

`tier`, `not tier`, `tier == '1'`, `tier != ''`, `tier < 3`, `kind in ['cache', 'queue']`, `kind not in [...]`,
`and`, `or`, parentheses; `column('Loss Ratio')` for names that are not words, `owner.name` for nested data.
A number compares as a number, text as text; an empty or absent column is `''` and false.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from transforms.nested import values_at

Data = Mapping[str, Any]
Test = Callable[[Data], bool]


class ConditionError(ValueError):
    """The condition cannot be read; `str()` says which part and what may stand there."""


def condition(text: str) -> tuple[Test, frozenset[str]]:
    """`text` as a test of one record's data, and the columns it reads. Raises ConditionError."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as wrong:
        raise ConditionError(f"{text!r} cannot be read: write it as in tier == '1' or kind in ['a', 'b']") from wrong
    columns: set[str] = set()
    return _test(tree.body, text, columns), frozenset(columns)


def _test(node: ast.expr, text: str, columns: set[str]) -> Test:
    if isinstance(node, ast.BoolOp):
        tests = [_test(value, text, columns) for value in node.values]
        if isinstance(node.op, ast.And):
            return lambda data: all(test(data) for test in tests)
        return lambda data: any(test(data) for test in tests)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = _test(node.operand, text, columns)
        return lambda data: not inner(data)
    if isinstance(node, ast.Compare):
        return _comparison(node, text, columns)
    if isinstance(node, ast.Constant) and isinstance(node.value, bool):
        constant = node.value
        return lambda data: constant
    path = _column(node, text)
    columns.add(path)
    return lambda data: any(_present(value) for value in values_at(data, path))


def _present(value: Any) -> bool:
    return value is not None and value is not False and not (isinstance(value, str) and not value.strip())


def _comparison(node: ast.Compare, text: str, columns: set[str]) -> Test:
    if len(node.ops) != 1:
        raise ConditionError(f"{text!r} compares more than two things at once: join them with 'and'")
    path = _column(node.left, text)
    columns.add(path)
    wanted, op = node.comparators[0], node.ops[0]
    if isinstance(op, (ast.In, ast.NotIn)):
        if not isinstance(wanted, (ast.List, ast.Tuple, ast.Set)):
            raise ConditionError(f"{text!r}: after 'in' stands a list, as in ['a', 'b']")
        options = [_constant(item, text) for item in wanted.elts]
        inside = isinstance(op, ast.In)
        return lambda data: any(_equal(value, option) for value in _all(data, path) for option in options) is inside
    constant = _constant(wanted, text)
    if isinstance(op, (ast.Eq, ast.NotEq)):
        same = isinstance(op, ast.Eq)
        return lambda data: any(_equal(value, constant) for value in _all(data, path)) is same
    compare = _ORDER.get(type(op))
    if compare is None:
        raise ConditionError(f"{text!r}: compare with ==, !=, <, <=, >, >= or in")
    return lambda data: any(_ordered(value, constant, compare) for value in _all(data, path))


_ORDER: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Lt: lambda a, b: bool(a < b),
    ast.LtE: lambda a, b: bool(a <= b),
    ast.Gt: lambda a, b: bool(a > b),
    ast.GtE: lambda a, b: bool(a >= b),
}


def _all(data: Data, path: str) -> list[Any]:
    return list(values_at(data, path)) or [None]


def _column(node: ast.expr, text: str) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{_column(node.value, text)}.{node.attr}"
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "column"
        and len(node.args) == 1
        and not node.keywords
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
    ):
        return node.args[0].value
    raise ConditionError(
        f"{text!r}: {ast.unparse(node)!r} is not a column. Write its name, or column('Loss Ratio') if it has spaces"
    )


def _constant(node: ast.expr, text: str) -> Any:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        value = node.operand.value
        if isinstance(value, (int, float)):
            return -value
    if isinstance(node, ast.Constant) and (node.value is None or isinstance(node.value, (str, int, float, bool))):
        return node.value
    raise ConditionError(f"{text!r}: {ast.unparse(node)!r} is not a quoted text, a number, true or false")


def _equal(value: Any, constant: Any) -> bool:
    if constant is None or constant == "":
        return not _present(value) and value is not False
    if value is None:
        return False
    if isinstance(constant, bool):
        return value is constant or (isinstance(value, str) and value.strip().lower() == str(constant).lower())
    if isinstance(constant, (int, float)):
        number = _number(value)
        return number is not None and number == _number(constant)
    return bool((value if isinstance(value, str) else _written(value)) == constant)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


def _number(value: Any) -> Decimal | None:
    if isinstance(value, bool):
        return None
    try:
        number = Decimal(repr(value) if isinstance(value, float) else str(value).strip())
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _ordered(value: Any, constant: Any, compare: Callable[[Any, Any], Any]) -> bool:
    if not _present(value):
        return False
    if isinstance(constant, str):
        return bool(compare(value if isinstance(value, str) else _written(value), constant))
    number = _number(value)
    return bool(number is not None and compare(number, _number(constant)))
