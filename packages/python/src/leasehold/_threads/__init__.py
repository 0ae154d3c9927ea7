"""Leasehold for threads, and for the greenlets of gevent: the names that `leasehold` itself has.

What this face shares with `leasehold.aio` is in the modules beside this folder; each face has
the signatures, their documentation, and how a call waits. A file here imports those above it:

    connection   how a call runs, and how word comes: `events`, `greenlets`
    lease        `acquire`, the way of every call that takes a lock; what a lease does
    lock, semaphore   what programs call, and their scopes
    client       makes the locks

`leasehold.aio` has the same files, with `_mailbox` in place of `events` and `greenlets`.
"""
