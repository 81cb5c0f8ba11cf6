"""Where in a response is the answer?"""

from typing import Any

from limpet.errors import LimpetError, PermanentError
from limpet.transport.failures import Show, said_error

ALL = "$"


class AnswerPath:
    """A JSONPath that leads to exactly one value; "$" is the whole response.

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
            raise LimpetError(
                f"answer={path!r}: is not a JSONPath: {error}",
                hint="for example $.choices[0].text",
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
