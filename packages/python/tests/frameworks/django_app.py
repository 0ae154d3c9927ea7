"""The program for gunicorn and uvicorn: a lock around a synchronous view, and around an asynchronous one."""

from __future__ import annotations

import os

import django
from asgiref.sync import sync_to_async
from counter import IS_LAZY, add_one, add_one_in_task
from django.conf import settings
from django.core.asgi import get_asgi_application
from django.core.wsgi import get_wsgi_application
from django.http import HttpRequest, JsonResponse
from django.urls import path

import steadlock

settings.configure(ROOT_URLCONF=__name__, ALLOWED_HOSTS=["127.0.0.1"], SECRET_KEY="of a test")
django.setup()
lock = steadlock.connect(lazy=IS_LAZY).lock("door")


def ready(request: HttpRequest) -> JsonResponse:
    return answer()


def in_thread(request: HttpRequest) -> JsonResponse:
    with lock:
        add_one()
    return answer()


async def in_task(request: HttpRequest) -> JsonResponse:
    """Uses the lock in an asynchronous view. Django runs each of these calls in a thread, and carries the context from
    one to the next.
    """
    await sync_to_async(lock.acquire)()
    try:
        await add_one_in_task()
    finally:
        await sync_to_async(lock.release)()
    return answer()


def answer() -> JsonResponse:
    return JsonResponse([os.getpid(), 1], safe=False)


urlpatterns = [path("ready", ready), path("threads", in_thread), path("tasks", in_task)]
wsgi = get_wsgi_application()
asgi = get_asgi_application()
