"""A worker that acquires the lock, reads the balance, adds its amount, and writes the balance back.

    python worker.py URL DATABASE AMOUNT [--fenced] [--hold-back]

With --fenced, each write has the fencing token, and the account refuses the write if it has seen a higher one. With
--hold-back, the worker waits between its last check of the lease and its first write, until its standard input has a
line or ends. The worker prints each of its steps.
"""

import argparse
import sqlite3
import sys

import steadlock

READ = "SELECT balance FROM account WHERE id = 7"
WRITE = "UPDATE account SET balance = :balance WHERE id = 7"
FENCED_WRITE = "UPDATE account SET balance = :balance, fence = :token WHERE id = 7 AND fence <= :token"


class RefusedError(Exception):
    """The account has seen a higher token."""


def print_line(text: str) -> None:
    print(text, flush=True)


def deposit(lock: steadlock.Lock, database: sqlite3.Connection, amount: int, *, fenced: bool, hold_back: bool) -> None:
    """Adds the amount once."""
    with lock as lease:
        (balance,) = database.execute(READ).fetchone()
        valid = "valid" if lease.is_valid() else "not valid"
        print_line(f"has the lock with token {lease.token}, reads {balance}; its lease is {valid}")
        if hold_back:
            sys.stdin.readline()
        values = {"balance": balance + amount, "token": lease.token}
        with database:
            written = database.execute(FENCED_WRITE if fenced else WRITE, values).rowcount
        if not written:
            raise RefusedError
        print_line(f"writes {balance + amount}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("database")
    parser.add_argument("amount", type=int)
    parser.add_argument("--fenced", action="store_true")
    parser.add_argument("--hold-back", action="store_true")
    options = parser.parse_args()
    # The watchdog renews this lease of one second. The lease ends only because the whole process is stopped.
    with steadlock.connect(options.url, lease=1) as client:
        lock, database = client.lock("account:7"), sqlite3.connect(options.database)
        try:
            deposit(lock, database, options.amount, fenced=options.fenced, hold_back=options.hold_back)
        except RefusedError:
            print_line("is refused: the account has a higher token; starts again")
            deposit(lock, database, options.amount, fenced=options.fenced, hold_back=False)
        except steadlock.LockLostError:
            print_line("learns too late that its lease was lost")


if __name__ == "__main__":
    main()
