"""CPython's own tests of `threading.RLock`, run on our lock."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

import pytest

import steadlock

# Some systems leave it out of their Python.
lock_tests: Any = pytest.importorskip("test.lock_tests")

# They look at what only `threading.Condition` may use.
PRIVATE = ("test__is_owned", "test_recursion_count", "test_release_save_unacquired")


def contract(client: steadlock.Client) -> type[unittest.TestCase]:
    """The tests, on locks of a name each."""
    numbers = itertools.count()

    def lock() -> steadlock.Lock:
        return client.lock(f"rlock-{next(numbers)}")

    without = dict.fromkeys(PRIVATE)
    return type("Contract", (lock_tests.RLockTests,), {"locktype": staticmethod(lock), **without})


# Some of its tests leave a lock to a thread that has ended.
@pytest.mark.filterwarnings("ignore:lock .* was still held by a thread:RuntimeWarning")
def test_a_lock_is_what_cpython_says_an_rlock_is(client: steadlock.Client) -> None:
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(contract(client))
    result = unittest.TestResult()
    suite.run(result)
    assert result.testsRun >= 15
    assert [*result.failures, *result.errors, *result.unexpectedSuccesses] == []
