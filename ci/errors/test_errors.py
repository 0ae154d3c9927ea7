"""Tests that the causes of each kind of error are on the page, and that its messages have all required parts."""

import json
import re
from pathlib import Path

import pytest

import page
import words
from cases import CASES, Cause, caused

ROOT = Path(__file__).resolve().parents[2]
EACH = [(kind, cause) for kind, causes in CASES.items() for cause in causes]
each_cause = pytest.mark.parametrize(("kind", "cause"), EACH, ids=[f"{kind}-{cause.__name__}" for kind, cause in EACH])


def test_every_kind_is_on_the_page() -> None:
    kinds = {error["kind"] for error in json.loads((ROOT / "ci" / "api" / "api.json").read_text())["errors"]}
    assert {*page.MEANING, "Cancelled"} == kinds
    assert CASES.keys() == page.MEANING.keys()


def test_the_page_is_up_to_date() -> None:
    assert page.PAGE.read_text() == page.page(), "./ci/just error-page writes it"


@each_cause
def test_a_message_says_what_happened_to_the_lock_and_what_to_do(kind: str, cause: Cause) -> None:
    error, _ = caused(cause)
    message = str(error)
    assert type(error).__name__ == f"{kind}Error"
    what, separator, advice = message.partition("; ")
    assert what, message
    assert separator, f"what to do: {message}"
    assert advice, message
    assert message.startswith(error.operation)
    # A closed or forked client does not know the lease any more, so it cannot name the lock. The program's lease can.
    is_unknown_lease = kind == "Forked" or (kind in {"Closed", "NotOwner"} and error.operation == "extend")
    if error.operation != "connect" and not is_unknown_lease:
        assert error.lock_name is not None, message
        assert f'{error.operation} of lock "{error.lock_name}": ' in message
    if error.node:
        assert message.endswith(f" (server {error.node})")
    assert bool(error.node) == (kind in {"Unavailable", "Misconfigured"}), message
    replaced = words.replaced_words((ROOT / words.GLOSSARY).read_text())
    assert not list(words.hits(message, replaced)), message
    assert not re.search(r"\s{2}|\.$", message), message
