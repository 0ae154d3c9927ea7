"""Loads the native library before everything else. If that fails, the error says what to do."""

import importlib

try:
    importlib.import_module("steadlock._native")
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "steadlock: its native library, steadlock._native, is not beside its modules; install it with pip, "
        "into a folder: it cannot be imported from a zip archive",
        name=error.name,
    ) from error
except ImportError as error:
    raise ImportError(
        f"steadlock: its native library cannot be loaded here: {error}; where it was installed for another system, "
        "C library or Python, install it with pip on this one",
        name=error.name,
        path=error.path,
    ) from error
