"""Tests that the rules are valid, and that each alert fires when it should. ci/api checks names and labels."""

import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent


def promtool(*arguments: str) -> str:
    done = subprocess.run(["promtool", *arguments], cwd=HERE, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_rules_are_valid() -> None:
    assert "SUCCESS: 13 rules found" in promtool("check", "rules", "alerts.yml")


def test_each_alert_fires_when_it_should_and_none_on_an_ordinary_day() -> None:
    assert "SUCCESS" in promtool("test", "rules", "alerts.test.yml")


def test_prometheus_accepts_the_configuration() -> None:
    promtool("check", "config", "prometheus.yml")


def test_an_alert_that_never_fires_is_noticed(tmp_path: Path) -> None:
    for name in ("alerts.yml", "alerts.test.yml"):
        (tmp_path / name).write_text((HERE / name).read_text().replace('reason=~"removed|stolen"', 'reason="gone"'))
    done = subprocess.run(
        ["promtool", "test", "rules", "alerts.test.yml"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode != 0
