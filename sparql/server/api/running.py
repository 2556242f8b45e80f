"""What runs is listed for those who may stop it, and who may do what is decided by those who may do all."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from starlette.responses import Response
from starlette.routing import Route

from sparql.query.call import Running
from sparql.server.api.operation import Body, Given, Operation, Parameter, Reply, answer, head
from sparql.server.api.operation import routes as made
from sparql.server.api.schema import COUNT, FLAG, TEXT, many, maybe, obj, ref
from sparql.server.problem import Problem
from sparql.server.serving import Serving
from sparql.tokens import TokenError, Tokens

NUMBER = {"type": "number", "minimum": 0}
QUERY = obj({
    "id": TEXT, "client": maybe("string"), "query": TEXT, "state": TEXT, "started": TEXT, "seconds": NUMBER,
    "deadline": NUMBER, "epoch": maybe("integer"), "rows": COUNT, "bytes": COUNT,
})  # fmt: skip
QUERIES = obj({"queries": many(ref("RunningQuery")), "epoch": COUNT, "next": maybe("string")})
CANCELLED = obj({"id": TEXT, "cancelled": FLAG, "epoch": COUNT, "next": maybe("string")})
TOKEN = obj({"name": TEXT, "read": FLAG, "write": many(TEXT), "admin": FLAG, "created": TEXT})
TOKENS = obj({"tokens": many(ref("Token")), "epoch": COUNT, "next": maybe("string")})
MADE = obj({"token": ref("Token"), "secret": TEXT, "epoch": COUNT, "next": maybe("string")})
NEW = obj({
    "name": {"type": "string", "minLength": 1, "maxLength": 100},
    "read": FLAG, "write": {"type": "array", "items": {"type": "string", "maxLength": 8192}, "maxItems": 1000,
                            "description": 'Graphs by IRI, "" the default graph, "*" all.'}, "admin": FLAG,
}, optional=("read", "write", "admin"))  # fmt: skip
GONE = obj({"name": TEXT, "revoked": FLAG, "epoch": COUNT, "next": maybe("string")})
SCHEMAS = {
    "RunningQuery": QUERY, "RunningQueries": QUERIES, "CancelledQuery": CANCELLED, "Token": TOKEN, "Tokens": TOKENS,
    "MadeToken": MADE, "NewToken": NEW, "RevokedToken": GONE,
}  # fmt: skip
ID = Parameter("id", {"type": "string", "minLength": 1, "maxLength": 64}, "The query, as listed.", "path", True,
               "1f2e3d4c5b6a")  # fmt: skip
NAME = Parameter("name", {"type": "string", "minLength": 1, "maxLength": 100}, "The token's name.", "path", True, "ci")

OPERATIONS = (
    Operation("GET", "/api/queries", "queries", "The queries that wait, run or are being sent",
              {200: Reply("The oldest first.", ref("RunningQueries"))}, "operations",
              "Texts may hold what others may not see: an admin's token is needed.", needs="admin"),
    Operation("DELETE", "/api/queries/{id}", "cancel", "Stop a query",
              {200: Reply("It runs no more; its client sees a broken answer.", ref("CancelledQuery"))}, "operations",
              "", (ID,), refusals=(404,), needs="admin"),
    Operation("GET", "/api/tokens", "tokens", "The tokens, without their secrets",
              {200: Reply("By name; the one in GRAPHTIDE_TOKEN is not among them.", ref("Tokens"))}, "operations",
              "", needs="admin"),
    Operation("POST", "/api/tokens", "make", "Make a token",
              {201: Reply("The token. Its secret is shown this once.", ref("MadeToken"))}, "operations",
              "", (), Body(NEW, "NewToken", example={"name": "ci", "read": True, "write": ["https://e.example/ci"]}),
              refusals=(415, 422, 503), needs="admin"),
    Operation("DELETE", "/api/tokens/{name}", "revoke", "Revoke a token",
              {200: Reply("It opens nothing from now on.", ref("RevokedToken"))}, "operations",
              "", (NAME,), refusals=(404, 503), needs="admin"),
)  # fmt: skip


def routes(serving: Serving) -> list[Route]:
    """`/api/queries` and `/api/tokens`."""
    return made(
        serving, OPERATIONS,
        {"queries": queries, "cancel": cancel, "tokens": tokens, "make": make, "revoke": revoke},
    )  # fmt: skip


async def queries(given: Given) -> Response:
    """What runs now."""
    rows = [_query(one) for one in given.serving.pool.running()]
    return answer(given, {"queries": rows}, epoch=head(given), headers={"Cache-Control": "no-store"})


async def cancel(given: Given) -> Response:
    """The query runs no more."""
    if not given.serving.pool.cancel(given.values["id"]):
        raise Problem(404, "unknown-query", f"No query {given.values['id']!r} runs. It may be over.")
    return answer(given, {"id": given.values["id"], "cancelled": True}, epoch=head(given))


async def tokens(given: Given) -> Response:
    """Who may do what."""
    rows = [token.to_dict() for token in _tokens(given).list()]
    return answer(given, {"tokens": rows}, epoch=head(given), headers={"Cache-Control": "no-store"})


async def make(given: Given) -> Response:
    """A new token with its secret."""
    body, kept = given.body, _tokens(given)

    def work() -> tuple[str, Any]:
        secret = kept.add(body["name"], read=body.get("read", False), write=body.get("write", ()),
                          admin=body.get("admin", False))  # fmt: skip
        return secret, kept.named(body["name"])

    try:
        secret, token = await given.serving.in_thread(work)
    except TokenError as no:
        raise Problem(422, "invalid-token", str(no)) from no
    if token is None:
        raise Problem(503, "token-gone", "The token was revoked as it was made. Make it again.")
    return answer(given, {"token": token.to_dict(), "secret": secret}, epoch=head(given), status=201,
                  headers={"Cache-Control": "no-store"})  # fmt: skip


async def revoke(given: Given) -> Response:
    """The token opens nothing any more."""
    name = given.values["name"]
    try:
        await given.serving.in_thread(lambda: _tokens(given).revoke(name))
    except TokenError as no:
        raise Problem(404, "unknown-token", str(no)) from no
    return answer(given, {"name": name, "revoked": True}, epoch=head(given))


def _tokens(given: Given) -> Tokens:
    return Tokens(given.serving.config.state, given.serving.config.token)


def _query(one: Running) -> dict[str, Any]:
    when = datetime.fromtimestamp(one.started, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "id": one.id, "client": one.client, "query": one.query, "state": one.state, "started": when,
        "seconds": round(max(0.0, one.seconds), 3), "deadline": one.deadline, "epoch": one.epoch, "rows": one.rows,
        "bytes": one.bytes,
    }  # fmt: skip
