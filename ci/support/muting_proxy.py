"""A proxy in front of a redis-server that forwards everything except published messages."""

import asyncio
import contextlib
import threading
from collections.abc import Iterator


class MutingProxy:
    """The URL of the proxy, and the number of messages that it has dropped."""

    def __init__(self, server_port: int) -> None:
        self.url = ""
        self.dropped = 0
        self._server_port = server_port
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self, started: threading.Event, stop: asyncio.Event) -> None:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        started.set()
        await stop.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task
        self._tasks.add(task)
        try:
            from_server, to_server = await asyncio.open_connection("127.0.0.1", self._server_port)
            up = asyncio.create_task(_pass_on(reader, to_server))
            try:
                await self._filter(from_server, writer)
            finally:
                up.cancel()
                to_server.close()
        except (ConnectionError, asyncio.CancelledError):
            # Tests kill their clients, and `serve` cancels this task at the end.
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _filter(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        buffer = b""
        while chunk := await reader.read(1 << 16):
            buffer += chunk
            start, kept = 0, []
            while (end := end_of_reply(buffer, start)) is not None:
                if is_message(buffer[start:end]):
                    self.dropped += 1
                else:
                    kept.append(buffer[start:end])
                start = end
            buffer = buffer[start:]
            writer.write(b"".join(kept))
            await writer.drain()


@contextlib.contextmanager
def proxy_without_messages(server_port: int) -> Iterator[MutingProxy]:
    """Runs a proxy on a separate thread."""
    proxy = MutingProxy(server_port)
    loop = asyncio.new_event_loop()
    started, stop = threading.Event(), asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(proxy.serve(started, stop),))
    thread.start()
    try:
        assert started.wait(5), "the proxy did not start"
        yield proxy
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


def is_message(reply: bytes) -> bool:
    """Whether a reply is `message CHANNEL PAYLOAD`, as RESP2 or RESP3 encodes it."""
    return reply.startswith((b"*3\r\n$7\r\nmessage\r\n", b">3\r\n$7\r\nmessage\r\n"))


def end_of_reply(buffer: bytes, start: int) -> int | None:
    """Returns the end of the reply that begins at `start`, or `None` if the buffer does not hold all of it yet."""
    line = buffer.find(b"\r\n", start)
    if line < 0:
        return None
    kind, end = buffer[start : start + 1], line + 2
    if kind in b"$=!":
        length = int(buffer[start + 1 : line])
        end += length + 2 if length >= 0 else 0
        return end if end <= len(buffer) else None
    if kind in b"*~>%":
        parts = int(buffer[start + 1 : line]) * (2 if kind == b"%" else 1)
        for _ in range(parts):
            part = end_of_reply(buffer, end)
            if part is None:
                return None
            end = part
    return end


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(1 << 16):
            writer.write(chunk)
            await writer.drain()
    writer.close()
