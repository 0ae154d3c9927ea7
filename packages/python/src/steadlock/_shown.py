"""The form in which messages show values that can contain a password."""

from __future__ import annotations

from steadlock import _native


def shown(name: str) -> str:
    """Returns a lock's name without the userinfo of a URL, because a program can pass a URL as a name by mistake."""
    return _native.shown(name if is_unicode(name) else name.encode(errors="backslashreplace").decode())


def type_of(value: object) -> str:
    """Returns the type of a value, for a message that must not show the value."""
    return type(value).__name__


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can express the text. Never raises, because a `UnicodeEncodeError` contains the text."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
