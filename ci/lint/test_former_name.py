"""Tests where the project's former name is found."""

from former_name import FORMER, KEPT, hits


def test_the_former_name_is_found_in_paths_and_lines_in_upper_and_lower_case() -> None:
    path = f"packages/{FORMER.title()}.kt"
    line = f"README.md:3:pip install {FORMER}"
    assert list(hits([path, "README.md"], [line])) == [path, line]


def test_only_the_lines_on_the_keep_list_are_accepted() -> None:
    kept = [f"{path}:{number}:{FORMER}" for path, lines in KEPT.items() for number in range(lines)]
    assert not list(hits([], kept))
    more = f"CHANGELOG.md:90:{FORMER}"
    assert list(hits([], [*kept, more])) == [more]


def test_a_binary_file_is_named() -> None:
    line = "Binary file docs/pictures/lock.png matches"
    assert list(hits([], [line])) == [line]
