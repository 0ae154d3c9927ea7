"""Runs CPython's own tests of `threading.RLock` on this package's lock."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

import pytest

import steadlock

# Some systems omit this module from their Python.
lock_tests: Any = pytest.importorskip("test.lock_tests")

# These tests use methods that are only for `threading.Condition`.
PRIVATE = ("test__is_owned", "test_recursion_count", "test_release_save_unacquired")


def contract(client: steadlock.Client) -> type[unittest.TestCase]:
    """Returns the tests with locks that each have a name of their own."""
    numbers = itertools.count()

    def lock() -> steadlock.Lock:
        return client.lock(f"rlock-{next(numbers)}")

    without = dict.fromkeys(PRIVATE)
    return type("Contract", (lock_tests.RLockTests,), {"locktype": staticmethod(lock), **without})


# Some of these tests leave a lock held by an ended thread.
@pytest.mark.filterwarnings("ignore:lock .* was still held by a thread:RuntimeWarning")
def test_a_lock_passes_the_rlock_tests_of_cpython(client: steadlock.Client) -> None:
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(contract(client))
    result = unittest.TestResult()
    suite.run(result)
    assert result.testsRun >= 15
    assert [*result.failures, *result.errors, *result.unexpectedSuccesses] == []
