"""Makes lock names from a function's arguments: `"user:{user_id}"`."""

from __future__ import annotations

import inspect
import string
from collections.abc import Callable
from typing import Any

from steadlock._shown import shown, type_of
from steadlock.errors import InvalidArgumentError, LockTimeoutError, SteadlockError, UnavailableError

_formatter = string.Formatter()


class NameTemplate:
    """A format string over the parameters of a function.

    A field is the name of a parameter, with attributes, items and format specifiers as in `str.format`:
    `"order:{order.id:08d}"`. Literal braces are doubled.
    """

    def __init__(self, template: str, function: Callable[..., Any], decorator: str = "synchronized") -> None:
        self._template = template
        self._decorator = decorator
        self._signature = inspect.signature(function)
        self._check(function)

    def name_for(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Returns the lock's name for one call. Arguments that do not fit raise `TypeError`, as in the call itself."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return _formatter.vformat(self._template, (), bound.arguments)

    def _check(self, function: Callable[..., Any]) -> None:
        if not isinstance(self._template, str):
            raise TypeError(f"{self._decorator}: a name is a str, not a {type_of(self._template)}")
        template = shown(self._template)
        try:
            fields = [field for _, field, _, _ in _formatter.parse(self._template) if field is not None]
        except ValueError as error:
            raise InvalidArgumentError(
                f"{self._decorator}: {template!r} is malformed: {error}", operation="acquire"
            ) from error
        known = self._signature.parameters
        for field in fields:
            parameter = field.partition(".")[0].partition("[")[0]
            if parameter not in known:
                # If the template is a URL, the field can be a part of its password. The message shows the field only if
                # the shown template contains it.
                what = repr(parameter) if parameter in template else "something"
                raise InvalidArgumentError(
                    f"{self._decorator}: {template!r} names {what}, which is not a parameter of "
                    f"{getattr(function, '__qualname__', function)}; it has {', '.join(known) or 'none'}",
                    operation="acquire",
                )


def is_skipped(error: SteadlockError, skip_if_busy: bool) -> bool:
    """Whether a call must return `None` because its lock was not granted."""
    if isinstance(error, UnavailableError):
        return error.skipped
    return skip_if_busy and isinstance(error, LockTimeoutError)


def is_coroutine_function(function: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(function)


def refuse_generators(function: Callable[..., Any], decorator: str = "synchronized") -> None:
    """Refuses generators. A generator's body runs after its call has returned, and so without the lock."""
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise TypeError(f"{decorator} cannot guard a generator; acquire the lock inside of it")
