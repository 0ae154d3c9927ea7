"""Tests which walks walk.py accepts."""

from pathlib import Path

import pytest
import walk

DOCUMENT = """
2 files down, 2 back, 3 different, 1 of them in `core/protocol`

| down | where | passes | what it adds |
|---|---|---|---|
| 1 | `a.py` | `acquire` | a |
| 2 | `core/protocol/b.rs` | `send`, `call` | b |

| back | where | passes | what it adds |
|---|---|---|---|
| 1 | `core/protocol/b.rs` | `reply` | b |
| 2 | `c.py` | `take` | c |

No row: | 3 | `d.py` | `none` |
"""
FILES = {
    "a.py": "def acquire():\n    send()\n",
    "core/protocol/b.rs": "fn send() {}\nfn call() {}\nfn reply() {}\n",
    "c.py": "def take():\n    return reply()\n",
}


def errors(tmp_path: Path, document: str = DOCUMENT, **changed: str) -> list[str]:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(changed.get(path.stem, text))
    return walk.errors(document, tmp_path)


def test_a_walk_is_followed_by_calls_and_by_results(tmp_path: Path) -> None:
    assert not errors(tmp_path)


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"a": "def acquire():\n    other()\n"}, "no call leads from a.py to send of core/protocol/b.rs"),
        ({"b": "fn send() {}\nfn reply() {}\n"}, "core/protocol/b.rs has no function call"),
        ({"c": "def take():\n    pass\n"}, "no call leads from core/protocol/b.rs to take of c.py"),
    ],
)
def test_a_wrong_row_is_found(tmp_path: Path, changed: dict[str, str], expected: str) -> None:
    assert expected in errors(tmp_path, **changed)


def test_a_missing_file_is_found(tmp_path: Path) -> None:
    assert "gone.py has no function take" in errors(tmp_path, DOCUMENT.replace("c.py", "gone.py"))


def test_a_missing_function_of_another_table_is_found(tmp_path: Path) -> None:
    table = "| loss | where | passes | what it adds |\n|---|---|---|---|\n| 1 | `c.py` | `lose` | a loss |\n\n"
    assert errors(tmp_path, DOCUMENT + table) == ["c.py has no function lose"]


def test_the_counts_are_compared_and_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (wrong,) = errors(tmp_path, DOCUMENT.replace("3 different", "4 different"))
    assert "3 different" in wrong
    monkeypatch.setattr(walk, "MOST", 2)
    assert any("may have 2" in one for one in errors(tmp_path))


def test_the_walk_of_the_document_is_correct() -> None:
    assert not walk.errors(walk.DOCUMENT.read_text(), walk.ROOT)
