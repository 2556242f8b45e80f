"""Which model is asked, what it says, and how it fails: known without the package that speaks to it, which is large."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparql.question.answer import Spent

DEFAULT_URL = "https://api.openai.com/v1"
DOWN, SLOW, BUSY, REFUSED, GARBAGE = "down", "slow", "rate-limited", "refused", "garbage"


class ModelFailed(Exception):
    """The model gave nothing to go on; `kind` is one of down, slow, rate-limited, refused, garbage."""

    def __init__(self, kind: str, message: str, spent: Spent | None = None) -> None:
        self.kind, self.message, self.spent = kind, message, spent or Spent()
        super().__init__(message)


@dataclass(frozen=True)
class ModelSettings:
    """Which model is asked, and what it may be told. Prices are money for a million tokens, None when not known."""

    name: str
    url: str = DEFAULT_URL
    key: str | None = field(default=None, repr=False)
    mode: str = "auto"
    seconds: float = 20.0
    tokens: int = 1024
    temperature: float | None = 0.0
    seed: int | None = 7
    input_price: float | None = None
    output_price: float | None = None
    send: frozenset[str] = frozenset({"schema", "values", "examples", "entities"})
    repairs: int = 2


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model said: a query, or why it has none. `text` is what it wrote, whole."""

    text: str
    sparql: str
    reason: str
    spent: Spent
