"""A text that cannot be read is an answer to a person: what is wrong, where, and what to write instead."""

from __future__ import annotations

LONGEST = 400


class SyntaxProblem(ValueError):
    """`message` says what is wrong and what next; `line` and `column` count from 1, `token` is what stands there.

    `offset` counts characters from 0. `limit` names the limit that was met, "" where the text itself is wrong.
    """

    def __init__(
        self, message: str, line: int = 0, column: int = 0, token: str = "", *, offset: int = 0, limit: str = ""
    ) -> None:
        if len(message) > LONGEST:  # it quotes a name, and names have no limit of their own
            message = f"{message[: LONGEST - 100]} ... {message[-90:]}"
        super().__init__(message)
        self.message, self.line, self.column, self.token = message, line, column, token
        self.offset, self.limit = offset, limit


def place(text: str, offset: int) -> tuple[int, int]:
    """Line and column, both from 1, of the character at `offset`."""
    return text.count("\n", 0, offset) + 1, offset - (text.rfind("\n", 0, offset) + 1) + 1
