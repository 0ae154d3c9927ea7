"""Counts the calls that a contended lock costs the server."""

from programs import Contender, Server, finish, start_round, together, turns

PROCESSES = ["rust", "python-threads", "python-asyncio", "node", "jvm", "rust", "python-asyncio", "node"]


def test_a_hand_over_of_the_plain_lock_costs_one_call_and_one_for_each_process(server: Server) -> None:
    contenders = [
        Contender(language, "turns", server, "wanted", workers=8, seconds=5, hold_ms=5) for language in PROCESSES
    ]
    with together(contenders) as ready:
        server.store.config_resetstat()
        start_round(ready)
        hand_overs = sum(sum(turns(line).grants) for line in finish(ready))
    calls = server.script_calls()
    print(f"{calls} calls for {hand_overs} hand-overs: {calls / hand_overs:.2f} each")
    assert hand_overs > 100
    assert calls / hand_overs <= 1 + len(PROCESSES)
