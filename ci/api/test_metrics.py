"""Tests that the metrics of the code are those of metrics.json."""

import re
from pathlib import Path

import pytest

from surface import ROOT
from tables import API, METRICS

FOLDER = ROOT / "core" / "client" / "src" / "observe" / "metrics"
SERVER = ROOT / "core" / "store" / "src" / "server" / "metrics.rs"
MONITORING = ROOT / "examples" / "monitoring"
ALL = [*METRICS["client"], *METRICS["server"]]


def values(of: str) -> list[str]:
    (found,) = [one["values"] for one in METRICS["labels"] if of in (one["name"], one.get("of"))]
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize(("part", "file"), [("client", FOLDER / "families.rs"), ("server", SERVER)])
def test_the_metrics_of_the_code_are_those_of_the_table(part: str, file: Path) -> None:
    found = re.findall(r'name: "(\w+)",\n\s+kind: "(\w+)",\n\s+meaning: "(.*)",\n', file.read_text())
    assert found == [(one["name"], one["type"], one["meaning"]) for one in METRICS[part]]


def test_opentelemetry_names_and_units_are_those_of_the_table() -> None:
    found = re.findall(r'otel_name: "(.+)",\n\s+otel_unit: "(.+)",\n', (FOLDER / "families.rs").read_text())
    assert found == [tuple(one["otel"]) for one in METRICS["client"]]


def test_the_buckets_are_those_of_the_table() -> None:
    text = (FOLDER / "families.rs").read_text()
    bounds = re.findall(r"^    ([\d_]+),$", text, re.MULTILINE)
    assert [int(micros.replace("_", "")) / 1e6 for micros in bounds] == METRICS["buckets"]


def test_metric_names_have_units_and_follow_prometheus() -> None:
    for one in ALL:
        name = one["name"]
        assert re.fullmatch(r"steadlock(_[a-z]+)+", name)
        assert name.endswith("_total") == (one["type"] == "counter"), name
        for unit in ("seconds", "bytes"):
            assert name.endswith(f"_{unit}") == (one["unit"] == unit), name
        assert one["meaning"].endswith("."), name
        assert not {"name", "lock", "owner"} & set(one["labels"]), f"{name} would have a series for each lock"


def test_every_label_is_explained_and_has_the_values_of_the_code() -> None:
    used = {label for one in ALL for label in one["labels"]}
    assert used == {one["name"] for one in METRICS["labels"]}
    series = (FOLDER / "series.rs").read_text()
    assert re.findall(r'Self::\w+ => "(\w+)"', series) == values("steadlock_acquisitions_total")
    assert re.findall(r'\("(\w+)", self\.\w+\.get\(\)\)', series) == values("steadlock_renewals_total")
    assert re.findall(r'const (?:NONE|OTHER): &str = "(\w+)"', (FOLDER / "groups.rs").read_text()) == values("group")
    (reasons,) = [one["values"] for one in API["values"] if one["rust"] == "LostReason"]
    assert values("reason") == reasons
    observation = (ROOT / "core" / "client" / "src" / "observe" / "observation.rs").read_text()
    link = re.search(r"impl Link \{(.*?)\n\}", observation, re.DOTALL)
    assert link
    assert re.findall(r'Self::\w+ => "(\w+)"', link[1]) == values("link")


def measured(name: str) -> str:
    """Returns the metric that a name in a query belongs to."""
    histograms = {one["name"] for one in ALL if one["type"] == "histogram"}
    base = re.sub(r"_(bucket|sum|count)$", "", name)
    return base if base in histograms else name


def in_queries(file: Path) -> list[tuple[str, str]]:
    """Returns each metric in the queries of a file, with its selectors."""
    text = file.read_text().replace('\\"', '"')
    return [(measured(name), labels) for name, labels in re.findall(r"\b(steadlock_\w+)(?:\{([^}]*)\})?", text)]


@pytest.mark.parametrize("name", ["alerts.yml", "alerts.test.yml", "board.json"])
def test_board_and_alerts_use_only_existing_metrics_labels_and_values(name: str) -> None:
    from_outside = {"job", "instance", "le"}
    found = in_queries(MONITORING / name)
    assert found
    for metric, selectors in found:
        if metric in ("steadlock_server", "steadlock_jobs") and name == "alerts.yml":
            continue  # These are the names of groups of rules.
        (row,) = [one for one in ALL if one["name"] == metric]
        for label, value in re.findall(r'(\w+)=~?"([^"]*)"', selectors):
            assert label in {*row["labels"], *from_outside}, f"{metric} has no label {label}"
            # The program names its groups, and `$` stands for a choice on the board.
            if label in from_outside | {"group"} or value.startswith("$"):
                continue
            allowed = [one["values"] for one in METRICS["labels"] if label == one["name"]]
            allowed = [values(metric)] if label == "outcome" else allowed
            assert set(value.split("|")) <= set(allowed[0]), f"{metric}: {label} is never {value}"


def test_the_board_has_every_metric_and_every_alert_has_a_test() -> None:
    assert {one["name"] for one in ALL} <= {name for name, _ in in_queries(MONITORING / "board.json")}
    alerts = re.findall(r"alert: (\w+)", (MONITORING / "alerts.yml").read_text())
    tested = (MONITORING / "alerts.test.yml").read_text()
    assert alerts
    assert [alert for alert in alerts if alert not in tested] == []


def test_the_kinds_are_those_of_the_core() -> None:
    kinds = (ROOT / "core" / "protocol" / "src" / "kinds").glob("*.rs")
    names = {name for file in kinds for name in re.findall(r'^    name: "(\w+)",$', file.read_text(), re.MULTILINE)}
    assert names | {"multi_lock"} == set(values("kind"))
