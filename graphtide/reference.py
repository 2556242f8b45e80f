"""The command and settings pages are written by the code they describe: `python -m graphtide.reference`."""

from __future__ import annotations

from pathlib import Path


def pages() -> dict[str, str]:
    """File name in docs/ -> its text."""
    from . import cli, keys

    return {"settings.md": keys.reference(), "commands.md": cli.reference()}


def write(docs: Path) -> list[Path]:
    """The pages as they should be, written; returns those that were not so before."""
    docs.mkdir(exist_ok=True)
    changed = []
    for name, text in pages().items():
        path = docs / name
        if not path.exists() or path.read_text("utf-8") != text:
            path.write_text(text, "utf-8")
            changed.append(path)
    return changed


if __name__ == "__main__":
    for page in write(Path(__file__).resolve().parent.parent / "docs"):
        print(f"wrote {page}")
