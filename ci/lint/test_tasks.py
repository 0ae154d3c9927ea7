"""Tests that no task passes an empty argument on."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
JUST = Path(sys.prefix) / "bin" / "just"


def just(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([JUST, *arguments], cwd=ROOT, capture_output=True, text=True, check=True)


def test_tasks_that_forward_their_arguments_get_no_empty_one() -> None:
    """A dependency gets `options` as one string. If this is empty, `"$@"` passes an empty argument to the program."""
    recipes = json.loads(just("--dump", "--dump-format", "json").stdout)["recipes"]
    depended_on = {
        dependency["recipe"]
        for recipe in recipes.values()
        for dependency in recipe["dependencies"]
        if any(argument[0] == "variable" for argument in dependency["arguments"] if isinstance(argument, list))
    }
    assert depended_on, "no task passes its options on"
    passes_on = {name for name, recipe in recipes.items() if json.dumps('"$@"')[1:-1] in json.dumps(recipe["body"])}
    assert passes_on, "no task passes its arguments on"
    assert sorted(depended_on & passes_on) == []
