"""What does a script get from a run that stopped before it was done?

An error, so that the script does not go on to its next run, or publish, as if this one were done.
It is raised when everything finished is on disk, and what came out is its `result`.
"""

import signal
from typing import TypeVar

from limpet.errors import InterruptedRunError
from limpet.run.results.evaluation_result import EvaluationResult
from limpet.run.results.map_result import MapResult

ResultT = TypeVar("ResultT", EvaluationResult, MapResult)  # type: ignore[type-arg]  # of any types


def whole(result: ResultT) -> ResultT:
    """Return the result of a run that was not stopped.

    Raises:
        KeyboardInterrupt: SIGINT stopped it.
        SystemExit: Another signal stopped it; the exit code is 128 + its number.
        LimpetError: It was stopped for this reason.
    """
    reason = result.stop_reason
    if reason is None:
        return result
    error: BaseException = reason
    if isinstance(reason, InterruptedRunError):
        signum = reason.signum or signal.SIGINT
        error = SystemExit(128 + signum)
        if signum == signal.SIGINT:
            is_kept = isinstance(result, MapResult) or result.run is not None
            how = reason.hint if is_kept else "nothing is kept; what finished is in its `result`"
            error = KeyboardInterrupt(f"{reason}; {how}")
    vars(error)["result"] = result
    raise error
