"""Where in a response is the answer?"""

from typing import Any

from limpet.errors import LimpetError, PermanentError
from limpet.transport.failures import Show, said_error

ALL = "$"


class AnswerPath:
    """A JSONPath that leads to exactly one value.

    Args:
        path: The path; "$" is the whole response.

    Raises:
        LimpetError: It is no JSONPath.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._compiled: Any = None
        if path == ALL:
            return
        import jsonpath  # noqa: PLC0415 - it takes its time to import, and many need none

        try:
            self._compiled = jsonpath.compile(path)
        except (jsonpath.JSONPathError, TypeError, AttributeError) as error:
            raise LimpetError(
                f"answer={path!r}: is no JSONPath: {error}", hint="such as $.choices[0].text"
            ) from error

    def find(self, body: Any, where: str, show: Show) -> Any:
        """Return the answer.

        Raises:
            PermanentError: There is none, or more than one, or it is null.
        """
        found = [body] if self._compiled is None else self._matches(body, where, show)
        if len(found) != 1:
            many = "nothing" if not found else f"{len(found)} values"
            error = None if found else said_error(body)
            says = show(body) if error is None else f"it says {show(error)}"
            raise PermanentError(
                f"{where}: {self.path!r} finds {many} in the response: {says}",
                hint="answer= must lead to exactly one value",
            )
        if found[0] is None:
            raise PermanentError(f"{where}: the answer at {self.path!r} is null: {show(body)}")
        return found[0]

    def _matches(self, body: Any, where: str, show: Show) -> list[Any]:
        try:
            found: list[Any] = self._compiled.findall(body)
        except Exception as error:
            raise PermanentError(
                f"{where}: {self.path!r} cannot be looked for: {show(str(error))}"
            ) from error
        return found
