"""Builds everything that the demo runs: the `steadlock` command, the three packages, and the demo's JVM service.

All native parts come from one call of cargo, so that each crate is compiled once: see .cargo/config.toml. The call
includes the command, because the demo does not count file descriptors as the tests do.
"""

import os
import sys
from pathlib import Path

from steps import Step, main

ROOT = Path(__file__).resolve().parents[2]
#: Settings for a fast build. Full optimization would take minutes longer, and the demo mostly waits for the network and
#: for locks.
QUICKLY = {
    "CARGO_PROFILE_RELEASE_LTO": "off",
    "CARGO_PROFILE_RELEASE_OPT_LEVEL": "1",
    "CARGO_PROFILE_RELEASE_DEBUG": "none",
}
MAVEN = ("mvn", "--batch-mode", "--no-transfer-progress", "--quiet")
JVM = ROOT / "packages" / "jvm"
BUILT = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
RUST = "Rust: the command, and the libraries of the packages"
KOTLIN = "Kotlin: the JVM package"
NODE_TOOLS = "npm: what builds the Node package"
PLACED = "Placing the libraries in their packages"

STEPS = (
    Step(RUST, [["cargo", "native", "--package", "steadlock-cli"]], environment=QUICKLY),
    Step(KOTLIN, [[*MAVEN, "--file", JVM / "pom.xml", "-Dexec.skip", "compile"]]),
    Step(NODE_TOOLS, [["ci/install", "node-demo", "node-package"]]),
    Step(
        "TypeScript: the Node package",
        [["npm", "run", "--silent", "--prefix", "packages/node", "build:js"]],
        needs=frozenset({NODE_TOOLS}),
    ),
    Step(
        PLACED,
        [
            [sys.executable, "packages/python/build_native.py"],
            ["node", "packages/node/build-native.mjs"],
            [JVM / "build-native.sh", JVM / "target"],
        ],
        needs=frozenset({RUST, KOTLIN, NODE_TOOLS}),
        environment={"STEADLOCK_BUILT": str(BUILT)},
    ),
    Step(
        "Java: the demo's service",
        [
            [*MAVEN, "--file", JVM / "pom.xml", "jar:jar", "install:install"],
            [*MAVEN, "--file", "examples/seckill/jvm/pom.xml", "package"],
        ],
        needs=frozenset({PLACED}),
    ),
)

if __name__ == "__main__":
    sys.exit(main(STEPS, ROOT))
