"""The programs that run the packages for JavaScript, in the versions that ci/package/node names."""

import json
from typing import NamedTuple

from npm import CHECKS

VERSIONS: dict[str, str] = json.loads((CHECKS.parents[1] / "package.json").read_text())["dependencies"]


class Host(NamedTuple):
    """A program that runs a file of JavaScript."""

    #: The name in docs/platforms.md and in the table.
    name: str
    #: The command that runs a file which uses the native library.
    native: tuple[str, ...]
    #: The command that runs a file which uses WebAssembly.
    web: tuple[str, ...]


def deno(*rights: str) -> tuple[str, ...]:
    return str(CHECKS / "deno"), "run", "--no-prompt", *(f"--allow-{right}" for right in rights)


NODE = Host("Node", ("node",), ("node",))
BUN = Host(f"Bun {VERSIONS['bun']}", (str(CHECKS / "bun"),), (str(CHECKS / "bun"),))
DENO = Host(f"Deno {VERSIONS['deno']}", deno("ffi"), deno("net", "env", "read"))
NEXT = f"Next.js {VERSIONS['next']}"
