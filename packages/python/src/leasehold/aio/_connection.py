"""How the calls of tasks run."""

from __future__ import annotations

from typing import TypeVar

from leasehold._connection import ConnectionBase
from leasehold._holds import Held
from leasehold.aio._mailbox import Mailbox

L = TypeVar("L", bound=Held)


class Connection(ConnectionBase[L]):
    """The connection of a client of asyncio."""

    def _begin(self) -> None:
        super()._begin()
        self.mailbox: Mailbox[L] = Mailbox(self.native, self.watched)

    async def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        try:
            await self.mailbox.outcome("release", self.native.submit_close)
        finally:
            self.mailbox.leave()

    def _leave(self) -> None:
        self.mailbox.detach_soon()

    def stop(self) -> None:
        self.mailbox.end_last_loop()
