"""Programs in different languages keep one another out."""

from itertools import combinations_with_replacement, pairwise

import pytest

from programs import LANGUAGES, Contender, Server, contend

WORKERS, ROUNDS = 8, 100


@pytest.mark.parametrize(("one", "other"), list(combinations_with_replacement(LANGUAGES, 2)))
def test_no_update_is_lost_between(server: Server, one: str, other: str) -> None:
    name = f"count-{one}-{other}"
    contend([Contender(language, "count", server, name, WORKERS, ROUNDS) for language in (one, other)])
    assert server.store.get(f"{name}:count") == str(2 * WORKERS * ROUNDS)
    assert not server.store.exists(name), "the lock is still held"


def test_fencing_tokens_rise_across_all_languages(server: Server) -> None:
    contend([Contender(language, "count", server, "tokens", 4, 50) for language in LANGUAGES])
    tokens = [int(token) for token in server.store.lrange("tokens:tokens", 0, -1)]
    assert len(tokens) == len(LANGUAGES) * 4 * 50
    assert all(earlier < later for earlier, later in pairwise(tokens))
