"""The calls of tasks to the engine."""

from __future__ import annotations

import asyncio
import time
from typing import TypeVar

from steadlock import _log
from steadlock._connection import ConnectionBase
from steadlock._holds import Held
from steadlock.aio._mailbox import Mailbox

L = TypeVar("L", bound=Held)


class Connection(ConnectionBase[L]):
    """The connection of a client of asyncio."""

    def _reset_state(self) -> None:
        super()._reset_state()
        self.mailbox: Mailbox[L] = Mailbox(self.native, self.watched)

    async def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        try:
            await self.mailbox.call("release", self.native.submit_close)
        finally:
            self.mailbox.detach_when_idle()
            if self.telemetry is not None:
                self.telemetry.closed()
        end = time.monotonic() + _log.FLUSH_LIMIT
        # The log's writer belongs to no event loop, so it cannot set an event, and this code polls.
        while _log.is_behind() and time.monotonic() < end:  # noqa: ASYNC110
            await asyncio.sleep(_log.FLUSH_STEP)

    def _stop_listening(self) -> None:
        self.mailbox.detach_soon()

    def after_fork(self) -> None:
        self.mailbox.after_fork()
        super().after_fork()

    def stop(self) -> None:
        self.mailbox.finish_ended_loop()
