"""How does a row become a request, and where in the response is the answer?"""

import itertools
import re
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from yarl import URL

from limpet.errors import LimpetError, PermanentError, wrong_argument
from limpet.placeholders import OF_ITEM, PLACEHOLDER, render_text, value_as_text
from limpet.placeholders import render as render_template
from limpet.shapes import Item
from limpet.text import did_you_mean
from limpet.transport.failures import Show, said_error

# ---- How does a row become a request? -----------------------------------------------------------


def render(template: Any, item: Item) -> Any:
    """Return a template filled with the item's values.

    Raises:
        LimpetError: The row lacks a column that it names.
    """
    return render_template(template, lambda name: _value(name, item))


def render_as_text(template: str, item: Item) -> str:
    """Return a string filled with the item's values, each as text.

    Raises:
        LimpetError: The row lacks a column that it names.
    """
    return render_text(template, lambda name: _value(name, item))


def render_url(template: str, item: Item) -> str:
    """Return an address filled with the item's values, each percent-encoded.

    Raises:
        LimpetError: The row lacks a column that it names.
    """
    return render_text(
        template,
        lambda name: _value(name, item),
        lambda value: quote(value_as_text(value), safe=""),
    )


def quoted_url(template: str) -> str:
    """Return the path and query of an address with all but its placeholders percent-encoded.

    Encoded parts stay unchanged.
    """
    placeholders = [match[0] for match in PLACEHOLDER.finditer(template)]
    # Only a complete address can be encoded, so a plain mark replaces each placeholder meanwhile.
    mark, count = f"~{uuid4().hex}", itertools.count()
    plain = PLACEHOLDER.sub(lambda _: f"{mark}{next(count)}~", template)
    quoted = URL(f"http://host{plain}").raw_path_qs
    return re.sub(f"{mark}([0-9]+)~", lambda match: placeholders[int(match[1])], quoted)


def _value(name: str, item: Item) -> Any:
    # The row's columns come first, as for function parameters.
    if name in item.row:
        return item.row[name]
    if name in OF_ITEM:
        return getattr(item, name)
    known = list(dict.fromkeys([*map(str, item.row), *OF_ITEM]))
    raise LimpetError(
        f"item {item.id!r} has no column {name!r}, which {{{{{name}}}}} needs"
        f"{did_you_mean(name, known)}",
        hint=f"columns: {', '.join(known)}",
    )


# ---- Where in a response is the answer? ---------------------------------------------------------

ALL = "$"


class AnswerPath:
    """A JSONPath to exactly one value; "$" is the entire response.

    Raises:
        LimpetError: The path is not a JSONPath.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._compiled: Any = None
        if path == ALL:
            return
        import jsonpath  # noqa: PLC0415 - slow to import, and rarely needed

        try:
            self._compiled = jsonpath.compile(path)
        except (jsonpath.JSONPathError, TypeError, AttributeError) as error:
            raise wrong_argument(
                "answer", f"is not a JSONPath: {error}", path, hint="for example $.choices[0].text"
            ) from error

    def find(self, body: Any, where: str, show: Show) -> Any:
        """Return the answer.

        Raises:
            PermanentError: The path finds nothing, more than one value, or null.
        """
        values = [body] if self._compiled is None else self._values(body, where, show)
        if len(values) != 1:
            many = f"{len(values)} values" if values else "nothing"
            error = None if values else said_error(body)
            shown = show(body) if error is None else f"it says {show(error)}"
            raise PermanentError(
                f"{where}: {self.path!r} finds {many} in the response: {shown}",
                hint="answer= must lead to exactly one value",
            )
        if values[0] is None:
            raise PermanentError(f"{where}: the answer at {self.path!r} is null: {show(body)}")
        return values[0]

    def _values(self, body: Any, where: str, show: Show) -> list[Any]:
        try:
            return list(self._compiled.findall(body))
        except Exception as error:
            raise PermanentError(
                f"{where}: {self.path!r} cannot be applied: {show(str(error))}"
            ) from error
