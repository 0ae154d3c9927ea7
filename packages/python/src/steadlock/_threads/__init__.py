"""Steadlock for threads, and for the greenlets of gevent: the names that `steadlock` itself has.

What this face shares with `steadlock.aio` is in the modules beside this folder; each face has
the signatures, their documentation, and how a call waits. A file here imports those above it:

    connection   how a call runs, and how word comes: `events`, `greenlets`
    lease        `acquire`, the way of every call that takes a lock; what a lease does
    lock, semaphore   what programs call, and their scopes
    client       makes the locks

`steadlock.aio` has the same files, with `_mailbox` in place of `events` and `greenlets`.
"""
