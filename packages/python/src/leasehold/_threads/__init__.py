"""Leasehold for threads, and for the greenlets of gevent: the names that `leasehold` itself has."""
