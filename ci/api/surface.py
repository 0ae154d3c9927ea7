"""Reads the public names of each language from its source or from the built package.

A surface is a map from a type to its public names. Types are named as in api.json. The entries `connect()` and `lock()`
have the parameters of these functions in Python.
"""

import inspect
import os
import re
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import steadlock

ROOT = Path(__file__).resolve().parent.parent.parent
RUST = ROOT / "core" / "client" / "src" / "api"
NODE = ROOT / "packages" / "node" / "dist"
JVM = ROOT / "packages" / "jvm" / "target" / "classes"

WITH_DETAILS = ("LockLost", "LockTimeout", "Skipped")
"""The kinds of errors that have more fields than message, lock and operation."""

CONSTRUCTORS = ("new", "caused", "closed", "lost", "lost_and_forgotten")
"""The constructors of errors. The core uses these; programs do not need them."""

Surface = dict[str, set[str]]


def rust() -> Surface:
    """Returns the names of the async API of the crate `steadlock`."""
    error = ROOT / "core" / "protocol" / "src" / "error.rs"
    surface = _rust("client.rs", "kinds.rs", "lease.rs", "lock.rs", str(error))
    surface["Error"] = {name for name in surface["Error"] if name not in CONSTRUCTORS and not name.startswith("with_")}
    surface["Builder"] |= _rust("blocking.rs")["Builder"]
    return surface


def rust_blocking() -> Surface:
    """Returns the names of the blocking API of the crate `steadlock`."""
    return _rust("blocking.rs")


def _rust(*files: str) -> Surface:
    surface: Surface = {}
    for file in files:
        text = (RUST / file).read_text()
        for kind, name, body in re.findall(r"^(impl|pub struct) (\w+) \{\n(.*?)^\}", text, re.DOTALL | re.MULTILINE):
            pattern = r"^    pub (?:const )?(?:async )?fn (\w+)" if kind == "impl" else r"^    pub (\w+):"
            surface.setdefault(name, set()).update(re.findall(pattern, body, re.MULTILINE))
        for name in re.findall(r"^impl Drop for (\w+)", text, re.MULTILINE):
            surface.setdefault(name, set()).add("drop")
    return surface


def python() -> Surface:
    """Returns the names of the Python package for threads."""
    return _python(steadlock, "__enter__")


def python_aio() -> Surface:
    """Returns the names of the Python package for asyncio."""
    return _python(steadlock.aio, "__aenter__")


def _python(module: ModuleType, scope: str) -> Surface:
    def members(type_: type) -> set[str]:
        names = {name for name in dir(type_) if not name.startswith("_")}
        names.update(getattr(type_, "__dataclass_fields__", ()))
        return names | ({"with"} if hasattr(type_, scope) else set())

    surface = {
        name: members(getattr(module, name)) for name in ("Client", "Lock", "ReadWriteLock", "Semaphore", "Lease")
    }
    public = {name: getattr(module, name) for name in module.__all__}
    surface["SteadlockError"] = {
        name for error in WITH_DETAILS for name in vars(getattr(steadlock, f"{error}Error")("")) if name[0] != "_"
    }
    surface["steadlock"] = {name for name, value in public.items() if inspect.isfunction(value)}
    surface["connect()"] = _parameters(module.connect)
    surface["lock()"] = _parameters(module.Client.lock) - {"self", "name"}
    return surface


def python_factories(module: ModuleType) -> dict[str, set[str]]:
    """Returns the options of each method that makes a lock, without the parameters that identify the lock."""
    names = ("lock", "mutex", "fair_lock", "read_write_lock", "semaphore", "multi_lock")
    subjects = {"self", "name", "limit", "locks"}
    return {name: _parameters(getattr(module.Client, name)) - subjects for name in names}


def _parameters(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters)


def node() -> Surface:
    """Returns the names of the Node package, from the declarations that were built."""
    surface: Surface = {}
    parents: dict[str, list[str]] = {}
    for file in sorted(NODE.glob("*.d.ts")):
        text = re.sub(r"/\*.*?\*/", "", file.read_text(), flags=re.DOTALL)
        for name, extends, body in re.findall(
            r"^export (?:declare class|interface) (\w+)(?: extends (\w+(?:, \w+)*))?[^{]*\{\n(.*?)^\}",
            text,
            re.DOTALL | re.MULTILINE,
        ):
            members = re.findall(r"^ {4}(?:readonly |get )*(\w+)\??[(<:]", body, re.MULTILINE)
            # Leaves out members of the language itself, like `toString` on the JVM.
            surface[name] = set(members) - {"constructor", "toJSON"}
            if "[Symbol.asyncDispose]" in body:
                surface[name].add("await using")
            parents[name] = extends.split(", ") if extends else []

    def all_of(name: str) -> set[str]:
        return surface.get(name, set()).union(*(all_of(parent) for parent in parents.get(name, ())))

    surface = {name: all_of(name) for name in surface}
    surface["SteadlockError"] = set().union(*(surface[f"{error}Error"] for error in WITH_DETAILS)) - {"Error"}
    index = (NODE / "index.d.ts").read_text()
    exported = {word for words in re.findall(r"export (?:type )?\{([^}]*)\}", index) for word in _exports(words)}
    functions = re.findall(r"^export declare function (\w+)", (NODE / "connect.d.ts").read_text(), re.MULTILINE)
    surface["steadlock"] = set(functions) & exported
    return surface


def _exports(words: str) -> Iterable[str]:
    return (word.strip().removeprefix("type ") for word in words.split(",") if word.strip())


def node_declaration(name: str) -> str:
    """Returns the text of an exported type of the Node package."""
    for file in sorted(NODE.glob("*.d.ts")):
        if found := re.search(rf"^export type {name} =(.*?);", file.read_text(), re.DOTALL | re.MULTILINE):
            return found[1]
    raise LookupError(name)


def node_exports() -> set[str]:
    """Returns the names that the Node package exports at run time."""
    program = "import * as steadlock from 'steadlock'; console.log(Object.keys(steadlock).join(' '))"
    command = ["node", "--input-type=module", "--eval", program]
    return set(subprocess.check_output(command, cwd=ROOT / "packages" / "node", text=True).split())


def jvm() -> Surface:
    """Returns the names of the built classes, as Kotlin names them. Extension functions belong to the extended type."""
    types = [
        "NamedLock",
        "NamedReadWriteLock",
        "NamedSemaphore",
        "Lease",
        "LockActivity",
        "LockOptions",
        "Steadlock",
        "SteadlockBuilder",
        "SteadlockClient",
    ]
    surface = {name: jvm_members(name) for name in types}
    errors = ("Steadlock", *WITH_DETAILS)
    surface["SteadlockException"] = {name for error in errors for name in jvm_members(f"{error}Exception")}
    for name, first in _methods("CoroutinesKt"):
        receiver = first.rpartition(".")[2]
        if receiver in surface:
            surface[receiver].add(name)
    return surface


def jvm_members(name: str) -> set[str]:
    """Returns the public methods, properties and constants of a class."""
    members = {_kotlin_name(method) for method, _ in _methods(name)} - {"toString"}
    constants = re.findall(r"^  public static final \S+ ([A-Z_]+);", _javap(name), re.MULTILINE)
    return members | set(constants) - {"INSTANCE"}


def _methods(name: str) -> list[tuple[str, str]]:
    """Returns the public methods of a class, each with the type of its first parameter."""
    methods = re.findall(r"^  public .*?([\w$-]+)\(([^,)]*).*;?$", _javap(name), re.MULTILINE)
    # Leaves out internal names, which have a `$`, and constructors. Kotlin appends a dash and a hash to the names of
    # methods with inline classes.
    return [(method.split("-")[0], first) for method, first in methods if "$" not in method and method != name]


def _kotlin_name(method: str) -> str:
    getter = re.fullmatch(r"get([A-Z])(\w*)", method)
    return getter[1].lower() + getter[2] if getter else method


def _javap(name: str) -> str:
    home = os.environ.get("JAVA_HOME")
    javap = str(Path(home) / "bin" / "javap") if home else "javap"
    return subprocess.check_output([javap, "-public", "-cp", str(JVM), f"io.github.steadlock.{name}"], text=True)
