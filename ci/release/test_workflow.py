"""Tests the workflows: the scripts that they call exist, and the jobs that publish wait for a person and have no other
rights."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from building import ROOT
from platforms import ELSEWHERE, PLATFORMS
from release import REGISTRIES

FILES = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
#: The permissions of each job that publishes. Trusted publishing needs an identity token.
PERMISSIONS = {
    "pypi": {"id-token": "write"},
    "npm": {"contents": "read", "id-token": "write"},
    "crates": {"contents": "read", "id-token": "write"},
    "maven": {"contents": "read"},
    "github": {"contents": "write"},
}


def workflow(file: Path) -> dict[str, Any]:
    # PyYAML reads the key `on` as the boolean true.
    workflow: dict[Any, Any] = yaml.safe_load(file.read_text())
    return {"on" if key is True else key: value for key, value in workflow.items()}


RELEASE = workflow(ROOT / ".github" / "workflows" / "release.yml")
JOBS: dict[str, dict[str, Any]] = RELEASE["jobs"]


def steps(file: Path) -> list[dict[str, Any]]:
    return [step for job in workflow(file)["jobs"].values() for step in job["steps"]]


def test_a_tag_starts_a_release_and_a_manual_run_a_rehearsal() -> None:
    assert RELEASE["on"] == {"push": {"tags": ["v*"]}, "workflow_dispatch": None}
    assert {name for name, job in JOBS.items() if job.get("if") == "github.event_name == 'push'"} == set(PERMISSIONS)


def test_publishing_jobs_wait_for_approval_and_have_only_the_permissions_they_need() -> None:
    assert set(PERMISSIONS) == {"pypi", *REGISTRIES}
    assert {name for name, job in JOBS.items() if job.get("environment") == "release"} == set(PERMISSIONS)
    assert RELEASE["permissions"] == {}
    for name, job in JOBS.items():
        assert job["permissions"] == PERMISSIONS.get(name, {"contents": "read"}), name


def test_no_other_job_gets_secrets_and_tokens() -> None:
    with_secrets = {name for name, job in JOBS.items() if re.search(r"secrets\.|github\.token", json.dumps(job))}
    assert with_secrets == {"maven", "github"}


def test_publishing_waits_until_everything_is_built_tested_and_complete() -> None:
    for name in PERMISSIONS:
        assert {"check", "linux", "elsewhere", "smoke", "assemble"} <= before(name), name
    assert before("github") >= {"pypi", "npm", "crates", "maven"}


def before(name: str) -> set[str]:
    """Returns the jobs that a job waits for, directly or indirectly."""
    needed = JOBS[name].get("needs", [])
    direct = {needed} if isinstance(needed, str) else set(needed)
    return direct | {further for one in direct for further in before(one)}


def test_each_platform_is_built_and_tested() -> None:
    assert platforms_of("elsewhere") == {one.npm for one in ELSEWHERE}
    assert platforms_of("smoke") == {one.npm for one in (*PLATFORMS, *ELSEWHERE)}
    for entry in JOBS["smoke"]["strategy"]["matrix"]["include"]:
        assert runs_on(entry["platform"], entry["runner"]), entry


def platforms_of(job: str) -> set[str]:
    entries = [entry["platform"] for entry in JOBS[job]["strategy"]["matrix"]["include"]]
    assert len(entries) == len(set(entries))
    return set(entries)


def runs_on(platform: str, runner: str) -> bool:
    """Whether a runner has the processor and the system of a platform, so that it needs no emulation."""
    system = {"linux": "ubuntu", "darwin": "macos", "win32": "windows"}[platform.partition("-")[0]]
    is_arm = runner.endswith("-arm") or (system == "macos" and not runner.endswith("-intel"))
    return runner.startswith(system) and is_arm == ("-arm64" in platform)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_each_script_and_recipe_that_is_called_exists(file: Path) -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split()
    tasks = (ROOT / "justfile").read_text() + (ROOT / "ci" / "test.just").read_text()
    recipes = set(re.findall(r"^([a-z][\w-]*)(?: [^:=\n]*)?:(?!=)", tasks, re.MULTILINE))
    run = "\n".join(command for step in steps(file) if (command := step.get("run")))
    run += "\n" + "\n".join(re.findall(r"^ .*command: \[(.*)\]$", file.read_text(), re.MULTILINE))
    called = re.findall(r"(?<![\w/])(?:ci|\.ci)/[\w./-]+", run)
    assert called
    assert [path for path in called if path not in listed] == []
    assert [name for name in re.findall(r"\./ci/just ([\w-]+)", run) if name not in recipes] == []


def test_each_registry_has_its_job() -> None:
    for registry in REGISTRIES:
        ran = [step.get("run") for step in JOBS[registry]["steps"]]
        assert f"python3 ci/release/release.py publish {registry}" in ran


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_actions_are_pinned_to_a_commit_with_its_version_beside_it(file: Path) -> None:
    for action in re.findall(r"uses: (.+)$", file.read_text(), re.MULTILINE):
        assert re.fullmatch(r"[\w.-]+/[\w.-]+@[0-9a-f]{40} # v[\d.]+", action), action


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_no_job_keeps_the_checkout_token_or_lacks_a_time_limit(file: Path) -> None:
    for job in workflow(file)["jobs"].values():
        assert job["timeout-minutes"] <= 100
    for step in steps(file):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"] == {"persist-credentials": False}
