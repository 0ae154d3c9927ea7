"""Tests that programs in different languages exclude each other."""

from itertools import combinations_with_replacement, pairwise

import pytest

from programs import LANGUAGES, Contender, Server, contend

WORKERS, ROUNDS = 8, 100


@pytest.mark.parametrize(("one", "other"), list(combinations_with_replacement(LANGUAGES, 2)))
def test_no_update_is_lost_between(server: Server, one: str, other: str) -> None:
    name = f"count-{one}-{other}"
    contend(Contender(language, "count", server, name, workers=WORKERS, rounds=ROUNDS) for language in (one, other))
    assert server.store.get(f"{name}:count") == str(2 * WORKERS * ROUNDS)
    assert not server.store.exists(name), "the lock is still held"


@pytest.mark.parametrize("kind", ["lock", "mutex", "fair", "write"])
def test_no_update_is_lost_and_fencing_tokens_rise_across_all_languages(server: Server, kind: str) -> None:
    name = f"tokens-{kind}"
    contend(Contender(language, "count", server, name, kind=kind, workers=4, rounds=50) for language in LANGUAGES)
    grants = len(LANGUAGES) * 4 * 50
    assert server.store.get(f"{name}:count") == str(grants)
    tokens = [int(token) for token in server.store.lrange(f"{name}:tokens", 0, -1)]
    assert len(tokens) == grants
    assert all(earlier < later for earlier, later in pairwise(tokens))
