"""Tests how steps run and are printed."""

import io
import os
import re
import select
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from quiet import Watch
from rich.console import Console

import demo
from steps import ATTEMPTS, Step, StepError, run


def printed(steps: list[Step], folder: Path, lanes: dict[str, int] | None = None, prints_output: bool = False) -> str:
    output = io.StringIO()
    run(steps, folder, Console(file=output, soft_wrap=True), lanes, prints_output)
    return output.getvalue()


def touch(*names: str) -> list[list[str]]:
    return [["touch", name] for name in names]


def test_each_step_has_one_line_with_its_seconds(tmp_path: Path) -> None:
    steps = [Step("first", [["sh", "-c", "echo noise; echo noise >&2"]]), Step("second", [["true"]])]
    first, second = sorted(printed(steps, tmp_path).splitlines())
    assert re.fullmatch(r"first +\d+ s", first)
    assert re.fullmatch(r"second +\d+ s", second)


def test_a_step_that_prints_its_output_prints_its_processor_time_too(tmp_path: Path) -> None:
    busy = "while time.process_time() < 0.6: pass"
    step = Step("busy", [[sys.executable, "-c", f"import time\n{busy}"]])
    line = printed([step], tmp_path, prints_output=True).splitlines()[-1]
    assert re.fullmatch(r"busy +\d+ s, +1 s of the processors", line)


def test_a_step_begins_after_the_steps_that_it_needs(tmp_path: Path) -> None:
    steps = [
        Step("last", [["cat", "b"]], needs=frozenset({"middle"})),
        Step("middle", [["cat", "a"], *touch("b")], needs=frozenset({"first"})),
        Step("first", touch("a")),
    ]
    assert [line.split()[0] for line in printed(steps, tmp_path).splitlines()] == ["first", "middle", "last"]


def test_steps_that_need_nothing_run_in_parallel(tmp_path: Path) -> None:
    def until(name: str) -> list[str]:
        return ["sh", "-c", f"until [ -e {name} ]; do sleep 0.01; done"]

    steps = [Step("one", [*touch("a"), until("b")]), Step("other", [until("a"), *touch("b")])]
    assert len(printed(steps, tmp_path).splitlines()) == 2


def test_a_lane_runs_its_steps_in_the_listed_order(tmp_path: Path) -> None:
    alone = "mkdir alone && sleep 0.1 && rmdir alone"
    steps = [Step(f"step {number}", [["sh", "-c", alone]], lane="narrow") for number in range(4)]
    # This step comes first in its lane once it is ready.
    late = Step("late", [["sh", "-c", alone]], frozenset({"before"}), lane="narrow")
    before = Step("before", [["sh", "-c", "until [ -e alone ]; do sleep 0.01; done"]])
    lines = printed([late, *steps, before], tmp_path, lanes={"narrow": 1}).splitlines()
    ended = [line.rpartition("  ")[0].strip() for line in lines if not line.startswith("before")]
    assert ended == ["step 0", "late", "step 1", "step 2", "step 3"]


def test_the_output_of_a_step_is_printed_in_one_piece_at_its_end(tmp_path: Path) -> None:
    one = Step("one", [["sh", "-c", "echo a; until [ -e b ]; do sleep 0.01; done; echo z"]])
    other = Step("other", [["sh", "-c", "echo c; touch b; echo d"]])
    lines = printed([one, other], tmp_path, prints_output=True).splitlines()
    assert lines[lines.index("a") + 1] == "z"
    assert lines[lines.index("c") + 1] == "d"


def test_a_stopped_step_prints_its_output(tmp_path: Path) -> None:
    output = io.StringIO()
    failing = Step("failing", [["sh", "-c", "until [ -e begun ]; do sleep 0.01; done; exit 3"]])
    other = Step("other", [["sh", "-c", "echo so far; touch begun; sleep 300"]])
    with pytest.raises(StepError, match="failing"):
        run([failing, other], tmp_path, Console(file=output, soft_wrap=True), prints_output=True)
    assert output.getvalue().splitlines()[2:] == ["so far", "other was stopped"]


def test_the_first_failure_has_the_output_of_its_command_and_stops_the_others(tmp_path: Path) -> None:
    failing = Step("failing", [["sh", "-c", "until [ -e begun ]; do sleep 0.01; done; echo why; exit 3"]])
    # The child of this shell would outlive it if only the shell were ended.
    other = Step("other", [["sh", "-c", "touch begun; sleep 300; touch ended"]])
    after = Step("after", touch("after"), needs=frozenset({"failing"}))
    began = time.monotonic()
    with pytest.raises(StepError, match=r"failing: sh -c .* failed") as caught:
        printed([failing, other, after], tmp_path)
    assert time.monotonic() - began < 30
    assert caught.value.output == "why\n"
    assert {file.name for file in tmp_path.iterdir()} == {"begun"}


def test_a_closed_output_ends_the_build(tmp_path: Path) -> None:
    class Closed(io.StringIO):
        def write(self, _: str) -> int:
            raise BrokenPipeError

    steps = [Step("first", [["true"]]), Step("second", [["true"]], needs=frozenset({"first"}))]
    with pytest.raises((BrokenPipeError, SystemExit)):
        run(steps, tmp_path, Console(file=Closed(), soft_wrap=True))


def test_an_interrupt_stops_all_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    joined = threading.Thread.join

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        while not (tmp_path / "begun").exists():
            time.sleep(0.01)
        monkeypatch.setattr(threading.Thread, "join", joined)
        raise KeyboardInterrupt

    monkeypatch.setattr(threading.Thread, "join", join)
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        printed([Step("long", [["sh", "-c", "touch begun; sleep 300"], *touch("ended")])], tmp_path)
    assert time.monotonic() - began < 30
    assert {file.name for file in tmp_path.iterdir()} == {"begun"}


def test_a_signal_ends_the_build_and_the_processes_it_started(tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path; from steps import Step, main; "
        f"sys.exit(main([Step('long', [['sh', '-c', 'echo $$ > pid; exec sleep 300']])], Path({str(tmp_path)!r})))"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=Path(__file__).parent) as process:
        pid = tmp_path / "pid"
        while not (pid.exists() and pid.read_text().endswith("\n")):
            time.sleep(0.01)
        # This descriptor becomes readable once the process has ended, even if its status was not read yet.
        started = os.pidfd_open(int(pid.read_text()))
        process.terminate()
    assert process.returncode == 143
    with open(started, "rb", buffering=0):
        assert select.select([started], [], [], 20)[0] == [started]


def test_a_missing_command_fails_its_step(tmp_path: Path) -> None:
    with pytest.raises(StepError, match="no-such-program"):
        printed([Step("missing", [["no-such-program"]])], tmp_path)


def test_the_steps_of_the_demo_name_existing_steps() -> None:
    titles = [step.title for step in demo.STEPS]
    assert len(titles) == len(set(titles))
    assert {title for step in demo.STEPS for title in step.needs} <= set(titles)


def test_a_run_that_keeps_going_leaves_out_what_needs_a_failed_step_and_raises_all_failures(tmp_path: Path) -> None:
    output = io.StringIO()
    steps = [
        Step("bad", [["sh", "-c", "echo why; exit 3"]]),
        Step("needs bad", [*touch("a")], frozenset({"bad"})),
        Step("needs both", [*touch("b")], frozenset({"needs bad", "good"})),
        Step("good", [*touch("c")]),
        Step("bad too", [["sh", "-c", "echo why too; exit 4"]], frozenset({"good"})),
    ]
    with pytest.raises(StepError, match="2 steps failed") as failed:
        run(steps, tmp_path, Console(file=output, soft_wrap=True), keeps_going=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c"]
    assert "needs bad is left out, as it needs bad" in output.getvalue()
    assert "needs both is left out, as it needs needs bad" in output.getvalue()
    assert "why\n" in failed.value.output
    assert "why too\n" in failed.value.output


class Paused:
    """A wall clock that is set forward with each letter in the file `pauses`, as after a pause of the machine. The file
    `noticed` has the letters that a second reading has seen: by then the watch has compared the first."""

    def __init__(self, folder: Path) -> None:
        self.pauses, self.noticed = folder / "pauses", folder / "noticed"
        self.last = ""
        self.pauses.touch()

    def __call__(self) -> float:
        pauses = self.pauses.read_text()
        if pauses == self.last:
            self.noticed.write_text(pauses)
        self.last = pauses
        return time.time() + 100 * len(pauses)


def after_a_pause(*, passes_at: int) -> str:
    """Returns a shell command that fails until it runs for this time. The machine stands still in each run."""
    return (
        "printf p >> pauses; until cmp -s pauses noticed; do sleep 0.01; done; "
        f"echo run $(wc -c < pauses); [ $(wc -c < pauses) -ge {passes_at} ]"
    )


def test_a_command_that_failed_while_the_machine_stood_still_runs_again(tmp_path: Path) -> None:
    output = io.StringIO()
    step = Step("tests", [["sh", "-c", after_a_pause(passes_at=2)], *touch("after")])
    with Watch(lambda: 0.0, Paused(tmp_path), pause=50) as watch:
        run([step], tmp_path, Console(file=output, soft_wrap=True), prints_output=True, watch=watch)
    lines = output.getvalue().splitlines()
    assert lines[1] == "run 1"
    assert "tests runs this again, as the machine stood still meanwhile" in lines
    assert "run 2" in lines
    assert (tmp_path / "after").exists()


def test_a_command_that_always_fails_on_a_machine_that_stands_still_fails_in_the_end(tmp_path: Path) -> None:
    step = Step("tests", [["sh", "-c", after_a_pause(passes_at=100)]])
    watched = Watch(lambda: 0.0, Paused(tmp_path), pause=50)
    with watched as watch, pytest.raises(StepError, match="tests"):
        run([step], tmp_path, Console(file=io.StringIO()), watch=watch)
    assert (tmp_path / "pauses").read_text() == "p" * ATTEMPTS


def test_a_failure_on_a_machine_that_ran_all_the_time_counts_at_once(tmp_path: Path) -> None:
    step = Step("tests", [["sh", "-c", "printf r >> runs; exit 3"]])
    with Watch(lambda: 0.0, pause=3600) as watch, pytest.raises(StepError, match="tests"):
        run([step], tmp_path, Console(file=io.StringIO()), watch=watch)
    assert (tmp_path / "runs").read_text() == "r"
