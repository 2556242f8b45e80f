"""Every dependency we ship with carries a licence a company may use beside Apache-2.0."""

from __future__ import annotations

import re
import sys
from importlib import metadata

ALLOWED = re.compile(
    r"apache|\bmit\b|mit-0|bsd|isc|python software foundation|\bpsf|mozilla public license 2\.0|mpl-2\.0|"
    r"w3c|zlib|unlicense|cc0|public domain|dfsg",
    re.IGNORECASE,
)
REFUSED = re.compile(r"(?<!l)gpl|affero|sspl|commercial|proprietary|busl", re.IGNORECASE)

# Packages whose metadata names no licence, or only a file, each looked up by hand.
KNOWN = {"owlrl": "W3C Software Licence"}


def licence(package: metadata.Distribution) -> str:
    """What the package says its licence is: the expression, the classifiers, or the short field."""
    meta = package.metadata
    expression = meta.get("License-Expression")
    if expression:
        return str(expression)
    classifiers = [
        line.rsplit(" :: ", 1)[-1] for line in meta.get_all("Classifier", []) if line.startswith("License ::")
    ]
    if classifiers:
        return "; ".join(classifiers)
    return (meta.get("License") or "").strip().split("\n")[0][:80]


def refused() -> list[str]:
    """One line for each installed package whose licence is not on the list."""
    wrong = []
    for package in metadata.distributions():
        name = package.metadata["Name"]
        found = KNOWN.get(name.lower()) or licence(package)
        if not ALLOWED.search(found) or REFUSED.search(found):
            wrong.append(f"{name} {package.version}: licence {found!r} is not on the allowed list.")
    return sorted(wrong)


if __name__ == "__main__":
    problems = refused()
    print("\n".join(problems) if problems else "Every dependency has an allowed licence.")
    sys.exit(1 if problems else 0)
