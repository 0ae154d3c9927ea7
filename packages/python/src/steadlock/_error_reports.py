"""Reports errors of the program's code that no caller can catch: of callbacks, telemetry and log handlers."""

from __future__ import annotations

import contextlib
import threading

from steadlock import _log


def report(error: BaseException) -> None:
    """Passes the error to `threading.excepthook`. Never raises, because the calling code must go on."""
    if isinstance(error, SystemExit):
        # The default hook ignores `SystemExit`.
        text = "a callback called `sys.exit`, which does not end the program in a thread of the client"
        _log.write([("error", text, {"event": "callback_exit"})])
    args = threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
    with contextlib.suppress(BaseException):
        try:
            threading.excepthook(args)
        except BaseException:
            threading.__excepthook__(args)


def is_ctrl_c(error: BaseException) -> bool:
    """Whether the error is Ctrl-C, raised by a signal handler in the main thread."""
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()
