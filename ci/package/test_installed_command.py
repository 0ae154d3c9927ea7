"""Tests the command of dist/, unpacked into an empty folder."""

from pathlib import Path

from command import archive
from installing import HERE, output_of
from platforms import this_platform
from table import ran
from version import version


def test_the_command_runs_without_other_files(program: Path, empty: dict[str, str], tmp_path: Path) -> None:
    assert output_of([program, "--version"], tmp_path, empty) == f"steadlock {version()}\n"
    for completion in ("steadlock.bash", "_steadlock", "steadlock.fish"):
        assert (program.parent / "completions" / completion).stat().st_size > 0
    for page in ("steadlock.1", "steadlock-run.1", "steadlock-serve.1"):
        assert (program.parent / "man1" / page).stat().st_size > 0
    ran(archive(this_platform()), HERE)
