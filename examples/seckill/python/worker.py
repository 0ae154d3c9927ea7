"""The Python service: sells vouchers, one per user, from a stock that services in other languages sell too."""

import asyncio
import json
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import redis.asyncio as redis

import steadlock.aio

URL = os.environ["REDIS_URL"]
PREFIX = os.environ["SECKILL_PREFIX"]
USERS = int(os.environ["SECKILL_USERS"])
CLICKS_AT_A_TIME = 8


class Worker:
    def __init__(self, client: steadlock.aio.Client, store: redis.Redis) -> None:
        self.lock = client.lock(f"{PREFIX}:voucher")
        self.store = store
        self.sold = 0
        self.refused = 0
        self.grants = 0
        self.longest_wait = 0.0
        self.sold_out = False

    async def serve(self, clicks: Iterator[str]) -> None:
        """Serves one click after another until no voucher or no click is left."""
        for user in clicks:
            if self.sold_out:
                return
            start = time.monotonic()
            async with self.lock as lease:
                self.grants += 1
                self.longest_wait = max(self.longest_wait, time.monotonic() - start)
                await self.sell(user, lease)

    async def sell(self, user: str, lease: steadlock.aio.Lease) -> None:
        """Sells a voucher to one user.

        Each read and each write is a separate command: only the lock makes the sale atomic.
        """
        stock = int(await self.store.get(f"{PREFIX}:stock") or 0)
        if stock == 0:
            self.sold_out = True
            return
        if await self.store.hexists(f"{PREFIX}:orders", user):
            self.refused += 1
            return
        # The fencing check: a holder that was paused for longer than its lease has a token that is too low.
        token = lease.token or 0
        if token <= int(await self.store.get(f"{PREFIX}:token") or 0):
            raise RuntimeError(f"fencing token {token} is too low")
        await asyncio.sleep(0.001)
        sale = f"python-{self.sold}"
        record = {"user": user, "language": "python", "token": token, "left": stock - 1}
        await self.store.hset(f"{PREFIX}:sales", sale, json.dumps(record))
        await self.store.hset(f"{PREFIX}:orders", user, sale)
        await self.store.set(f"{PREFIX}:token", token)
        await self.store.set(f"{PREFIX}:stock", stock - 1)
        self.sold += 1

    def progress(self) -> dict[str, float]:
        return {
            "sold": self.sold,
            "refused": self.refused,
            "grants": self.grants,
            "longestWaitMs": round(self.longest_wait * 1000, 1),
        }


async def report(worker: Worker) -> None:
    while True:
        print(json.dumps(worker.progress()), flush=True)
        await asyncio.sleep(0.2)


def serve_metrics(client: steadlock.aio.Client) -> str:
    """Serves the metrics of the client to Prometheus, and returns their URL."""

    class Metrics(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = client.metrics().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            self.wfile.write(page)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Metrics)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/metrics"


async def main() -> None:
    store = redis.from_url(URL, decode_responses=True)
    async with (
        steadlock.aio.connect(URL, metrics=True) as client,
        # The mutex keeps a second Python service from selling. Its lease is renewed each second.
        client.mutex(f"{PREFIX}:shift:python", lease=3, renew=True),
    ):
        worker = Worker(client, store)
        print(json.dumps({"ready": serve_metrics(client)}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)

        clicks = [f"user-{number}" for number in range(USERS)] * 2
        random.shuffle(clicks)
        shared = iter(clicks)
        reporter = asyncio.create_task(report(worker))
        await asyncio.gather(*(worker.serve(shared) for _ in range(CLICKS_AT_A_TIME)))
        reporter.cancel()
        print(json.dumps(worker.progress()), flush=True)
        print(json.dumps({"done": True}), flush=True)
        await asyncio.to_thread(sys.stdin.read)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main())
