"""The log: losses, failing renewals and lost connections, as the core words them."""

from __future__ import annotations

import contextlib
import logging

from leasehold import _native

logger = logging.getLogger("leasehold")

_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warn": logging.WARNING, "error": logging.ERROR}


def wanted_level() -> str | None:
    """From which level on the core is to tell; `None` if nobody would read it."""
    return next((name for name, level in _LEVELS.items() if logger.isEnabledFor(level)), None)


def write(lines: list[_native.Line]) -> None:
    """Hands lines to the logger. What a filter raises is not to end the thread or the loop that does so."""
    for level, text, fields in lines:
        with contextlib.suppress(Exception):
            logger.log(_LEVELS[level], "%s", text, extra=fields)
