"""A file's ending tells its format, and a file that may hold a secret is none until someone names it."""

from __future__ import annotations

import re

_ENDINGS = {
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "json": "json",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "yaml": "yaml",
    "yml": "yaml",
    "xml": "xml",
    "parquet": "parquet",
    "xlsx": "excel",
    "xlsm": "excel",
    "ttl": "turtle",
    "trig": "trig",
    "nt": "ntriples",
    "nq": "nquads",
    "rdf": "rdfxml",
    "owl": "rdfxml",
    "jsonld": "jsonld",
}
RDF = frozenset({"turtle", "trig", "ntriples", "nquads", "rdfxml", "jsonld"})
STREAMED = frozenset({"csv", "tsv", "jsonl", "xml"})
"""Formats that are read a record at a time; the others are read whole."""
NAMES = {**_ENDINGS, **{name: name for name in _ENDINGS.values()}}
"""What `format` may say, and the format it means."""

_SECRET = re.compile(
    r"""(?xi)
    \.env.* | .*\.env | \.?netrc | \.htpasswd | \.npmrc | \.pypirc
    | id_(?:rsa|dsa|ecdsa|ed25519)(?:[_.-].*)?
    | .*\.(?:pem|key|crt|cer|der|csr|p7b|p8|p12|pfx|jks|keystore|kdbx|ppk|gpg|pgp|asc|age)
    | (?:.*[_.-])?(?:secrets?|credentials?|service[_-]?account|kubeconfig)(?:[_.-].*)?
      \.(?:json|jsonl|ya?ml|xml|csv|tsv)
    """
)


def format_of(path: str) -> str | None:
    """The format a path's ending tells, None when it tells none."""
    name = path.rpartition("/")[2]
    stem, dot, ending = name.rpartition(".")
    return _ENDINGS.get(ending.lower()) if dot and stem else None


def may_be_secret(name: str) -> bool:
    """Whether a file of this name is usually a key, a certificate or a list of secrets."""
    return _SECRET.fullmatch(name) is not None
