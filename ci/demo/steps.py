"""Runs steps in parallel, and prints one line for each with its duration in seconds."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Command = Sequence[str | Path]


class Step(NamedTuple):
    """Commands that run one after the other, once the steps in `needs` have ended."""

    title: str
    commands: Sequence[Command]
    #: The titles of other steps.
    needs: frozenset[str] = frozenset()
    environment: Mapping[str, str] = {}


class StepError(Exception):
    """A command of a step failed."""

    def __init__(self, step: Step, command: Command, output: str) -> None:
        super().__init__(f"{step.title}: {' '.join(map(str, command))} failed")
        self.output = output


def run(steps: Sequence[Step], folder: Path, console: Console) -> None:
    """Runs all steps. The first failure stops all other steps and is raised. An interrupt does the same."""
    all_steps = Run(steps, folder, console)
    threads = [threading.Thread(target=all_steps.run_when_ready, args=[step]) for step in steps]
    with all_steps.progress:
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:
            all_steps.stop(None)
            raise
    if all_steps.failure is not None:
        raise all_steps.failure


class Run:
    """The steps of one call of `run`."""

    def __init__(self, steps: Sequence[Step], folder: Path, console: Console) -> None:
        self.folder, self.console = folder, console
        self.failure: BaseException | None = None
        # Only a terminal shows the steps that are still running.
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        self.progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._changed = threading.Condition()
        self._waiting_for = {step.title: set(step.needs) for step in steps}
        self._processes: set[subprocess.Popen[bytes]] = set()
        self._is_stopped = False

    def run_when_ready(self, step: Step) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._is_stopped or not self._waiting_for[step.title])
        try:
            self._run(step)
        except BaseException as failure:
            # `run` raises it.
            self.stop(failure)

    def _run(self, step: Step) -> None:
        if self._is_stopped:
            return
        task = self.progress.add_task(step.title)
        began = time.monotonic()
        try:
            for command in step.commands:
                self._execute(step, command)
        finally:
            self.progress.remove_task(task)
        if self._is_stopped:
            return
        self.console.print(f"{step.title:<58} {time.monotonic() - began:4.0f} s", highlight=False)
        with self._changed:
            for titles in self._waiting_for.values():
                titles.discard(step.title)
            self._changed.notify_all()

    def _execute(self, step: Step, command: Command) -> None:
        with tempfile.TemporaryFile() as output:
            with self._changed:
                if self._is_stopped:
                    return
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
                    raise StepError(step, command, str(error)) from error
                self._processes.add(process)
            status = process.wait()
            with self._changed:
                self._processes.discard(process)
            if status != 0 and not self._is_stopped:
                output.seek(0)
                raise StepError(step, command, output.read().decode(errors="replace"))

    def stop(self, failure: BaseException | None) -> None:
        """Ends all running commands. Only the first call has an effect, so its failure is kept."""
        with self._changed:
            if self._is_stopped:
                return
            self._is_stopped, self.failure = True, failure
            for process in self._processes:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGTERM)
            self._changed.notify_all()


def main(steps: Sequence[Step], folder: Path) -> int:
    """Runs all steps, and prints the output of a failed command at the end. Returns the exit status."""
    console = Console(highlight=False, soft_wrap=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        run(steps, folder, console)
    except StepError as failure:
        sys.stdout.flush()
        sys.stderr.write(f"{failure.output.rstrip()}\n{failure}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return 0
