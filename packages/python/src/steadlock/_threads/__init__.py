"""Steadlock for threads and for greenlets of gevent: the API that `steadlock` exports.

The modules beside this folder have the parts that this API shares with `steadlock.aio`. Each API has its own
signatures, their documentation, and its way of waiting. A file here imports only files that are listed above it:

    connection   how a call runs, and how events arrive: `events`, `greenlets`
    lease        `acquire`, through which every acquisition goes; the lease
    lock, semaphore   the methods that programs call, and their scopes
    client       makes the locks

`steadlock.aio` has the same files, with `_mailbox` in place of `events` and `greenlets`.
"""
