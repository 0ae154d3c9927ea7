"""The program for uvicorn: a lock around a request, with a synchronous dependency and with an asynchronous one."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from counter import IS_LAZY, add_one, add_one_in_task, store
from fastapi import Depends, FastAPI, Request

import steadlock

lock = steadlock.connect(lazy=IS_LAZY).lock("door")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    async with steadlock.aio.connect(lazy=IS_LAZY) as client:
        app.state.lock = client.lock("door")
        yield


def guarded_in_thread() -> Iterator[None]:
    """A synchronous dependency. FastAPI can enter it in one of its threads and leave it in another."""
    entered = threading.get_ident()
    with lock:
        yield
    if threading.get_ident() != entered:
        store().incr("left elsewhere")


async def guarded_in_task(request: Request) -> AsyncIterator[None]:
    async with request.app.state.lock:
        yield


app = FastAPI(lifespan=lifespan)


@app.get("/ready")
async def ready() -> tuple[int, int]:
    return os.getpid(), 1


@app.get("/threads", dependencies=[Depends(guarded_in_thread)])
def in_thread() -> tuple[int, int]:
    add_one()
    return os.getpid(), 1


@app.get("/tasks", dependencies=[Depends(guarded_in_task)])
async def in_task() -> tuple[int, int]:
    await add_one_in_task()
    return os.getpid(), 1
