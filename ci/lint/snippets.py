"""Writes each Python program of the documents to a file in a folder, for type checkers.

    python ci/lint/snippets.py FOLDER

The snippets are whole programs, except for those of `docs/migrate`, which tests complete. Django has no types, and
pyright would guess them, so `snippets.json` leaves Django out.
"""

import re
import sys
from pathlib import Path

DOCUMENTS = (
    "README.md",
    "packages/python/README.md",
    "docs/metrics.md",
    "docs/usage.md",
    "docs/servers.md",
    "docs/fencing.md",
    "docs/python.md",
    "docs/jobs.md",
    "docs/leaders.md",
)


def snippets(text: str) -> list[str]:
    """The programs in Python of a document."""
    return re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.py"):
        old.unlink()
    for document in map(Path, DOCUMENTS):
        for number, program in enumerate(snippets(document.read_text()), 1):
            name = re.sub(r"\W", "_", str(document.with_suffix("")))
            (folder / f"{name}_{number}.py").write_text(program)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
