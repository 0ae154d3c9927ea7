"""What code of the program raises that nobody called who could catch it: callbacks, telemetry, handlers of the log."""

from __future__ import annotations

import contextlib
import threading

from steadlock import _log


def report(error: BaseException) -> None:
    """Hands it to `threading.excepthook`. Never raises: what it runs in goes on, whatever that was."""
    if isinstance(error, SystemExit):
        # Of this the hook says nothing by default.
        text = "a callback called `sys.exit`, which ends no program from a thread of the client"
        _log.write([("error", text, {"event": "callback_exit"})])
    args = threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
    with contextlib.suppress(BaseException):
        try:
            threading.excepthook(args)
        except BaseException:
            threading.__excepthook__(args)


def is_ctrl_c(error: BaseException) -> bool:
    """Whether a signal handler has raised it, in the thread whose business it is."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()
