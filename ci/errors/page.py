"""Writes docs/errors.md: the meaning of each kind of error, and the messages of its most likely causes.

cases.py causes the errors, so the messages are those of the current client. Parts that differ from run to run are
replaced.
"""

import inspect
import re
from itertools import groupby
from pathlib import Path

from cases import CASES, Cause, caused

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "errors.md"

HEAD = """\
# Errors and their causes

Each error says what happened, to which lock, on which server if a server has to do with it, and what to do. (A call of
a lease that its client has forgotten, after its release, says "this lease".) Its fields say the same without a search
in the text: the kind, the lock's name, the operation, the server, the cause, and whether a retry may help
([names in each language](api.md#errors)). No error contains a password.

This page has the most likely causes of each kind, with the messages that they give. It is made by bringing each of
them about: `./ci/just error-page` writes it, and a test compares it.
"""

# The meaning of each kind for the lock, and advice for the program.
MEANING = {
    "LockTimeout": "The wait is over, and another owner holds the lock. Nothing is wrong: answer that it is busy, or "
    "wait again. A call that does not wait gives `False`, `None` or `null` instead.",
    "Skipped": "A [job](jobs.md) was not run, because another run of it is under way, or it is done. Nothing is wrong, "
    "and nothing was changed. The reason, the start of the other run and how long it took are fields of the error.",
    "Unavailable": "The server did not answer in time, could not be reached, or cannot serve for now. You do not hold "
    "the lock, whatever the server did. The client goes on connecting in the background, so the same call may succeed "
    "later.",
    "Misconfigured": "The server answered, and locks cannot work with it as it is set up, or with this key. A retry "
    "does not help; `steadlock doctor URL` looks for more of these.",
    "InvalidArgument": "An argument is out of its range, or the call would wait for its own caller. Nothing was sent. "
    "It is a mistake in the program or its configuration.",
    "NotOwner": "The caller does not hold what it wants to release or extend. Nothing was changed on the server, and "
    "no other owner's lock was touched.",
    "LockLost": "The lease ended before its holder was done, so another owner may have worked at the same time. Check "
    "what was done since, or let the resource refuse old [fencing tokens](fencing.md). The reason is a field of the "
    "error, and `lost` of a lease tells it as soon as it is known.",
    "Closed": "The client was closed. Its leases have ended, and it acquires nothing any more.",
    "Forked": "The object was made before a `fork`, and does not work in the child.",
}

CANCELLED = """\
## Cancelled

The caller itself gave up, and nothing stays on the server of the attempt. It is no error of Steadlock's in most
languages, but the one that the language has for it: `asyncio.CancelledError` or `KeyboardInterrupt` in Python, the
reason of the `AbortSignal` in Node, `InterruptedException` or `CancellationException` on the JVM. Rust's futures are
dropped; the blocking calls have no such end. The usual causes: a timeout around the call (`asyncio.timeout`,
`withTimeout`), a client of yours that hung up, Ctrl-C, a pool or a task group that shuts down, and a lock of the same
task group that failed.
"""

# The parts that differ from run to run, each with its replacement.
VARIES = [
    (r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}:\d+", "4f1c98e2-3d47-4c0e-9a55-0e7d21c7b6aa:17"),
    (r"held by .* \(worker-7\), pid \d+ on \S+", "held by orders.py (worker-7), pid 4711 on app-1"),
    (r"not granted after [\d.]+m?s: held", "not granted after 500ms: held"),
    (r"not granted after [\d.]+m?s: the", "not granted after 500ms: the"),
    (r"not granted after [\d.]+m?s: it", "not granted after 900ms: it"),
    (r"the answer took \d+ms", "the answer took 101ms"),
    (r"must be longer than \d+ms", "must be longer than 123ms"),
    (r"answer within [\d.]+m?s", "answer within 500ms"),
    (r"for another [\d.]+s", "for another 29.9s"),
    (r"skipped: .* \(worker-7\), pid \d+ on \S+", "skipped: report.py (worker-7), pid 4711 on app-1"),
    (r"running it for [\d.]+\w+", "running it for 12s"),
    (r"ran it in [\d.]+\w+, [\d.]+\w+ ago", "ran it in 41s, 3.2s ago"),
    (r"run again in [56]\d\d[\d.]*s", "run again in 555.8s"),
    (r"run again in 86\d\d\d[\d.]*s", "run again in 86355.8s"),
]


def happened(cause: Cause) -> str:
    """Returns the message of this cause, with the parts that differ from run to run replaced."""
    error, addresses = caused(cause)
    message = str(error)
    for address, name in addresses.items():
        message = message.replace(address, name)
    for varies, stands in VARIES:
        message = re.sub(varies, stands, message)
    return message


def section(kind: str) -> str:
    """Returns the section of the page about one kind."""
    parts = [f"## {kind}", MEANING[kind]]
    causes = [(happened(cause), inspect.getdoc(cause) or "") for cause in CASES[kind]]
    # Groups causes with the same message, at the place of the first of them.
    order = [message for message, _ in causes]
    causes.sort(key=lambda cause: order.index(cause[0]))
    for message, group in groupby(causes, key=lambda cause: cause[0]):
        parts.append("\n".join(f"- {' '.join(text.split())}" for _, text in group))
        parts.append(f"```text\n{message}\n```")
    return "\n\n".join(parts)


def page() -> str:
    return "\n\n".join([HEAD.rstrip(), *map(section, MEANING), CANCELLED])


if __name__ == "__main__":
    PAGE.write_text(page())
