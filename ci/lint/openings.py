"""Finds sentences in comments that open with a clause or with a pronoun in place of their subject.

python ci/lint/openings.py [FILE...]     without files, all that git lists
"""

import re
import sys
from pathlib import Path

from comments import SOURCES, sentences

from words import listed

#: No sentence opens with these: a reader learns only at its end what it is about.
CLAUSE = re.compile(r"[\"'`“(*]*(Who|What|So|Those|Of|That|Whom|Whose|Whoever|Whatever)\b")
#: No paragraph opens with these, because there is no noun before them.
PRONOUN = re.compile(r"[\"'`“(*]*(It|Its|They|Their|Them|He|She)\b")


def wrong_opening(text: str, *, is_first: bool) -> str | None:
    """Returns the word with which this sentence opens, if no sentence may open with it."""
    found = CLAUSE.match(text) or (PRONOUN.match(text) if is_first else None)
    return found[1] if found else None


def main(files: list[Path]) -> int:
    status = 0
    for pattern, prose_of in SOURCES:
        for file in listed(pattern):
            if files and not any(file == other or other in file.parents for other in files):
                continue
            for line, text, is_first in sentences(prose_of(file.read_text())):
                if word := wrong_opening(text, is_first=is_first):
                    print(f"{file}:{line}: a sentence opens with “{word}”: {text[:80]}")
                    status = 1
    return status


if __name__ == "__main__":
    sys.exit(main([Path(file) for file in sys.argv[1:]]))
