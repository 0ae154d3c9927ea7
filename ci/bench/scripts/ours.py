"""The calls that a client makes of our scripts, which are read from their files."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from meter import Arguments, Meter
from scenario import Scenario, Step

LUA = Path(__file__).resolve().parents[3] / "core" / "protocol" / "lua"
LEASE = "30000"
# As long as real owner ids: a client's id and a number.
OWNERS = [f"6f9619ff-8b86-4011-b42d-00c04fc964f{client}:123456789012345678{client}" for client in range(10)]
A, B, C = OWNERS[:3]
# The number of waiters in one poll of a fair lock, in the row with many waiters.
MANY = 64

Call = Callable[..., Callable[[str], Sequence[Arguments]]]


def text(folder: Path, script: str) -> str:
    """Returns a script with the parts that it uses in front of it, as core/protocol/src/script.rs assembles it."""
    own = (folder / f"{script}.lua").read_text()
    uses = re.search(r"^-- Uses (.*)$", own, re.MULTILINE)
    parts = uses[1].split(", ") if uses else []
    return "".join((folder / part).read_text() for part in parts) + own


def scenarios(meter: Meter, folder: Path = LUA) -> dict[str, Scenario]:
    """Returns the scenarios by the kind of lock."""

    def call(script: str, keys: Sequence[str], *args: str) -> Callable[[str], Sequence[Arguments]]:
        sha1 = meter.load(text(folder, script))

        def commands(name: str) -> Sequence[Arguments]:
            filled = [key.format(name=name) for key in keys]
            return [["EVALSHA", sha1, str(len(keys)), *filled, *(arg.replace("{name}", name) for arg in args)]]

        return commands

    found: dict[str, Scenario] = {}
    for fencing in (True, False):
        suffix = "" if fencing else ", no fencing"
        for kind in ("lock", "mutex"):
            found[kind + suffix] = _simple(call, kind, fencing)
        found["fair_lock" + suffix] = _fair(call, fencing)
        found["write" + suffix] = _write(call, fencing)
    found["fair_lock, 64 waiters"] = _fair_crowd(call)
    found["read"] = _read(call)
    found["read with another reader"] = _read(call, shared=True)
    found["semaphore"] = _semaphore(call, 1)
    found["semaphore, 10 permits"] = _semaphore(call, 10)
    found["semaphore with another holder"] = _semaphore(call, 1, shared=True)
    return found


def _own(suffix: str) -> str:
    return "steadlock:{{{name}}}:" + suffix


def _simple(call: Call, kind: str, fencing: bool) -> Scenario:
    keys = ["{name}", _own("token")] if fencing else ["{name}"]
    channel = "redisson_lock__channel:{{name}}" if kind == "lock" else "steadlock:{{name}}:channel"
    return Scenario(
        [
            Step("acquire", call(f"{kind}_acquire", keys, LEASE, A), 1),
            Step("renew", call(f"{kind}_renew", ["{name}"], "40000", A), 1),
            Step("refused", call(f"{kind}_acquire", keys, LEASE, B), 0),
            Step("release", call(f"{kind}_release", ["{name}"], A, channel), 1),
        ]
    )


def _fair(call: Call, fencing: bool) -> Scenario:
    keys = ["{name}", _own("token"), _own("fair"), _own("alive")]
    channel, with_token = "redisson_lock__channel:{{name}}", "1" if fencing else "0"
    return Scenario(
        [
            Step("acquire", call("fair_acquire", keys, LEASE, A, with_token, "0"), 1),
            Step("renew", call("lock_renew", ["{name}"], "40000", A), 1),
            Step("refused", call("fair_acquire", keys, LEASE, B, with_token, "0"), 0),
            Step("queue", call("fair_acquire", keys, LEASE, B, with_token, "1"), 0),
            Step("poll", call("fair_poll", keys, B, with_token)),
            Step("hand over", call("fair_release", keys, A, channel), 1),
            Step("release", call("fair_release", keys, B, channel), 1),
        ]
    )


def _fair_crowd(call: Call) -> Scenario:
    keys = ["{name}", _own("token"), _own("fair"), _own("alive")]
    channel = "redisson_lock__channel:{{name}}"
    waiters = [f"{B[:36]}:1{number:018}" for number in range(MANY)]
    polled = [argument for waiter in waiters for argument in (waiter, "1")]
    leave = [Step("leave", call("fair_release", keys, waiter, channel), 2) for waiter in waiters]
    return Scenario(
        [
            Step("", call("fair_acquire", keys, LEASE, A, "1", "0"), 1),
            Step("enter", call("fair_poll", keys, *polled)),
            Step("poll", call("fair_poll", keys, *polled)),
            *leave,
            Step("", call("fair_release", keys, A, channel), 1),
        ]
    )


def _write(call: Call, fencing: bool) -> Scenario:
    state, readers, token = _own("rw"), _own("rw-readers"), _own("token")
    keys = [state, readers, token] if fencing else [state, readers]
    return Scenario(
        [
            Step("acquire", call("write_acquire", keys, LEASE, A, "0"), 1),
            Step("renew", call("write_renew", [state], "40000", A), 1),
            Step("refused", call("write_acquire", keys, LEASE, B, "0"), 0),
            Step("release", call("write_release", [state], A, "steadlock:{{name}}:rw-channel"), 1),
        ]
    )


def _read(call: Call, shared: bool = False) -> Scenario:
    state, readers, channel = _own("rw"), _own("rw-readers"), "steadlock:{{name}}:rw-channel"
    measured = [
        Step("acquire", call("read_acquire", [state, readers], LEASE, A, "0", ""), 1),
        Step("renew", call("read_renew", [readers], "40000", A), 1),
        Step("release", call("read_release", [state, readers], A, channel), 1),
    ]
    if shared:
        first = Step("", call("read_acquire", [state, readers], LEASE, B, "0", ""), 1)
        return Scenario([first, *measured, Step("", call("read_release", [state, readers], B, channel), 1)])
    write = Step("", call("write_acquire", [state, readers], LEASE, B, "0"), 1)
    refused = Step("refused", call("read_acquire", [state, readers], LEASE, A, "0", ""), 0)
    return Scenario([*measured, write, refused, Step("", call("write_release", [state], B, channel), 1)])


def _semaphore(call: Call, permits: int, shared: bool = False) -> Scenario:
    key, channel, permit_count = _own("semaphore"), "steadlock:{{name}}:semaphore-channel", str(permits)
    limit = str(permits * 2 if shared else permits)

    def acquire(owner: str) -> Callable[[str], Sequence[Arguments]]:
        return call("semaphore_acquire", [key], LEASE, owner, permit_count, limit)

    measured = [
        Step("acquire", acquire(A), 1),
        Step("renew", call("semaphore_renew", [key], "40000", A, permit_count), 1),
        Step("refused", acquire(C), 0),
        Step("release", call("semaphore_release", [key], A, permit_count, channel), 1),
    ]
    if shared:
        last = Step("", call("semaphore_release", [key], B, permit_count, channel), 1)
        return Scenario([Step("", acquire(B), 1), *measured, last])
    return Scenario(measured)
