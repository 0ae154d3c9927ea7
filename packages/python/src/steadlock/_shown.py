"""What messages show of values that may hold a password."""

from __future__ import annotations

from steadlock import _native


def shown(name: str) -> str:
    """A lock's name without the userinfo of a URL, which may have been passed in its place."""
    return _native.shown(name if is_unicode(name) else name.encode(errors="backslashreplace").decode())


def type_of(value: object) -> str:
    """The type of a value, for a message that must not show the value."""
    return type(value).__name__


def is_unicode(text: str) -> bool:
    """Whether the text can be sent. The exception that says no would hold the text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
