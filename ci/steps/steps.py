"""Runs steps in parallel, and prints one line for each with its duration in seconds.

A step begins when the steps that it needs have ended and its lane has room.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "quiet"))

from quiet import Watch

Command = Sequence[str | Path]
#: A machine that stood still for this long has disturbed what ran, in seconds. RedLock waits for an answer for half a
#: second, of which such a pause leaves little.
PAUSE = 0.3
#: How often a command runs that fails whenever the machine stands still.
ATTEMPTS = 3


class Step(NamedTuple):
    """Commands that run one after the other, once the steps in `needs` have ended."""

    title: str
    commands: Sequence[Command]
    #: The titles of other steps.
    needs: frozenset[str] = frozenset()
    environment: Mapping[str, str] = {}
    #: `run` limits how many steps of a lane run at once. Steps that are ready begin in the order of the list.
    lane: str = ""


class StepError(Exception):
    """A command of a step failed, or commands of several steps did."""

    def __init__(self, message: str, output: str) -> None:
        super().__init__(message)
        self.output = output

    @property
    def report(self) -> str:
        """The output of the command, and the message."""
        return f"{self.output.rstrip()}\n{self}\n"


def run(
    steps: Sequence[Step],
    folder: Path,
    console: Console,
    lanes: Mapping[str, int] | None = None,
    prints_output: bool = False,
    keeps_going: bool = False,
    watch: Watch | None = None,
) -> None:
    """Runs all steps. The first failure stops all other steps and is raised. An interrupt does the same.

    `lanes` says how many steps of a lane run at once; a lane that is not named has no limit. With `prints_output` a
    line says that a step begins, the output of each command is printed when the command has ended or was stopped, and
    the line of a step has its processor time. With `keeps_going` a failure leaves out only the steps that need the
    failed one, and is raised at the end. A command that failed while `watch` noticed a disturbance runs again.
    """
    all_steps = Run(steps, folder, console, lanes or {}, prints_output, keeps_going, watch)
    threads = [threading.Thread(target=all_steps.run_when_ready, args=[step]) for step in steps]
    with all_steps.progress:
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except BaseException:
            all_steps.stop(None)
            raise
    match all_steps.failures:
        case []:
            return
        case [failure]:
            raise failure
        case failures:
            reports = "\n".join(failure.report for failure in failures if isinstance(failure, StepError))
            raise StepError(f"{len(failures)} steps failed", reports)


class Run:
    """The steps of one call of `run`."""

    def __init__(
        self,
        steps: Sequence[Step],
        folder: Path,
        console: Console,
        lanes: Mapping[str, int],
        prints_output: bool,
        keeps_going: bool,
        watch: Watch | None,
    ) -> None:
        self.steps, self.folder, self.console = steps, folder, console
        self.prints_output, self.keeps_going, self.watch = prints_output, keeps_going, watch
        self.failures: list[BaseException] = []
        # Only a terminal shows the steps that are still running.
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._changed = threading.Condition()
        self._waiting_for = {step.title: set(step.needs) for step in steps}
        self._room = dict(lanes)
        self._begun: set[str] = set()
        #: The titles of the steps that failed, or that need one of these.
        self._failed: set[str] = set()
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False

    def run_when_ready(self, step: Step) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or self._failed & step.needs or self._is_next(step))
            self._begun.add(step.title)
            if failed := self._failed & step.needs:
                self.console.print(f"{step.title} is left out, as it needs {', '.join(sorted(failed))}")
                self._failed.add(step.title)
            elif step.lane in self._room:
                self._room[step.lane] -= 1
            self._changed.notify_all()
        if failed:
            return
        try:
            self._run(step)
        except BaseException as failure:
            # `run` raises the failure.
            if self.keeps_going and isinstance(failure, StepError):
                self._end(step, failure)
            else:
                self.stop(failure)

    def _is_next(self, step: Step) -> bool:
        """Returns whether the steps that this one needs have ended, and its lane has room for it."""
        if step.lane not in self._room:
            return not self._waiting_for[step.title]
        if self._room[step.lane] == 0:
            return False
        ready = (
            other.title
            for other in self.steps
            if other.lane == step.lane and other.title not in self._begun and not self._waiting_for[other.title]
        )
        return next(ready, None) == step.title

    def _run(self, step: Step) -> None:
        if self._is_stopped:
            return
        task = self.progress.add_task(step.title)
        if self.prints_output:
            self.console.print(f"{step.title} begins")
        began, used = time.monotonic(), 0.0
        try:
            for command in step.commands:
                used += self._execute_undisturbed(step, command)
        finally:
            self.progress.remove_task(task)
        if self._is_stopped:
            return
        processors = f", {used:4.0f} s of the processors" if self.prints_output else ""
        self.console.print(f"{step.title:<58} {time.monotonic() - began:4.0f} s{processors}", highlight=False)
        self._end(step)

    def _end(self, step: Step, failure: StepError | None = None) -> None:
        """Lets waiting steps begin. A failure is kept, and leaves out the steps that need this one."""
        with self._changed:
            if step.lane in self._room:
                self._room[step.lane] += 1
            if failure is None:
                for titles in self._waiting_for.values():
                    titles.discard(step.title)
            elif not self._is_stopped:
                self.console.out(failure.report, end="", highlight=False)
                self.failures.append(failure)
                self._failed.add(step.title)
            self._changed.notify_all()

    def _execute_undisturbed(self, step: Step, command: Command) -> float:
        """Runs a command as `_execute` does, and again if it failed while the machine was disturbed."""
        for attempt in range(1, ATTEMPTS + 1):
            disturbances = self.watch.disturbances if self.watch else 0
            try:
                return self._execute(step, command)
            except StepError as failure:
                if not self.watch or self.watch.disturbances == disturbances or attempt == ATTEMPTS:
                    raise
                self.console.out(failure.report, end="", highlight=False)
                self.console.print(f"{step.title} runs this again, as the machine stood still meanwhile")
        raise AssertionError("the last attempt returns or raises")

    def _execute(self, step: Step, command: Command) -> float:
        """Runs a command. Returns the processor time of all processes that it waited for, in seconds."""
        failed = f"{step.title}: {' '.join(map(str, command))} failed"
        with tempfile.TemporaryFile() as output:
            with self._changed:
                if self._is_stopped:
                    return 0
                try:
                    process = subprocess.Popen(
                        command,
                        cwd=self.folder,
                        env=os.environ | dict(step.environment),
                        stdin=subprocess.DEVNULL,
                        stdout=output,
                        stderr=subprocess.STDOUT,
                        # A separate process group, so that all of its processes can be stopped.
                        start_new_session=True,
                    )
                except OSError as error:
                    raise StepError(failed, str(error)) from error
                self._processes.add(process)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            with self._changed:
                self._processes.discard(process)
            output.seek(0)
            text = output.read().decode(errors="replace")
            if process.returncode != 0 and not self._is_stopped:
                raise StepError(failed, text)
            if self.prints_output:
                stopped = f"{step.title} was stopped\n" if self._is_stopped else ""
                self.console.out(text + stopped, end="", highlight=False)
            return usage.ru_utime + usage.ru_stime

    def stop(self, failure: BaseException | None) -> None:
        """Ends all running commands. Only the first call has an effect, so its failure is kept."""
        with self._changed:
            if self._is_stopped:
                return
            self._is_stopped = True
            if failure is not None:
                self.failures.append(failure)
            for process in self._processes:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
            self._changed.notify_all()


def main(
    steps: Sequence[Step],
    folder: Path,
    lanes: Mapping[str, int] | None = None,
    prints_output: bool = False,
    keeps_going: bool = False,
) -> int:
    """Runs all steps, and prints the output of failed commands at the end. Returns the exit status.

    With `keeps_going` a command that failed while the machine stood still runs again.
    """
    console = Console(highlight=False, soft_wrap=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        # A busy machine is no disturbance here, and neither is stolen time.
        with Watch(stolen=lambda: 0.0, pause=PAUSE) if keeps_going else nullcontext() as watch:
            run(steps, folder, console, lanes, prints_output, keeps_going, watch)
    except StepError as failure:
        sys.stdout.flush()
        sys.stderr.write(failure.report)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
