"""Tests that the files which the documents for contributors name are there."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/architecture/decisions.md", "docs/architecture/records.md"]
PATH = re.compile(r"`([\w./-]+/[\w.-]+\.(?:rs|py|ts|kt|java|lua|json|just|mjs))`")
# Words in the place of a name that the reader chooses.
PLACEHOLDERS = re.compile(r"\b(?:KIND|LANGUAGE|NAME)\b")
FILES = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def missing(document: str) -> list[str]:
    """Returns the files that a document names, by the end of their paths, and that are not there."""
    paths = (path for path in PATH.findall(document) if not PLACEHOLDERS.search(path))
    return [path for path in paths if not any(f"/{file}".endswith(f"/{path}") for file in FILES)]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_each_file_that_a_document_names_exists(name: str) -> None:
    assert missing((ROOT / name).read_text()) == []


def test_a_missing_file_is_found() -> None:
    assert missing("see `kinds/gone.rs`, `core/protocol/src/kinds/NAME.rs`, `src/kinds.rs`") == ["kinds/gone.rs"]
