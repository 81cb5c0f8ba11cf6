"""How does `nat eval` itself journal its answers and resume?

The toolkit loads this module through its entry point. Its callbacks for evaluations are not enough:
none can skip an answered item, and for a served workflow they are called only when all items are
finished. So the command gets a subclass of its `EvaluationRun`, which uses a subclass of the
handler that calls a served workflow. Other users of these classes get neither.

Limpet's own modules are imported when an evaluation starts: `nat --help` needs none of them.
"""

import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from importlib import import_module
from inspect import signature
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limpet.integrations.nat.eval_journal import EvalJournal

SWITCH = "LIMPET_NAT_JOURNAL"
"""The environment variable that turns it off: `0`."""

logger = logging.getLogger("limpet.nat")
_NEEDED = (
    "cleanup_output_directory",
    "run_and_evaluate",
    "run_workflow_local",
    "run_workflow_remote",
    "_compute_usage_stats",
)
_journal: ContextVar["EvalJournal | None"] = ContextVar("limpet_nat_journal", default=None)


def install() -> None:
    """Let `nat eval` journal, if this process is the command `nat` and it is not turned off."""
    if "nat.cli.entrypoint" not in sys.modules or os.environ.get(SWITCH) == "0":
        return
    try:
        command = import_module("nat.plugins.eval.cli.evaluate")
        served = import_module("nat.plugins.eval.runtime.remote_workflow")
        _check(command.EvaluationRun, served.EvaluationRemoteWorkflowHandler)
    except (ImportError, AttributeError) as error:
        if "eval" in sys.argv:
            logger.warning("limpet: no journal: this version of the toolkit is unknown: %s", error)
        return
    command.EvaluationRun = journaled_run(command.EvaluationRun)  # type: ignore[attr-defined]
    handler = journaled_handler(served.EvaluationRemoteWorkflowHandler)
    served.EvaluationRemoteWorkflowHandler = handler  # type: ignore[attr-defined]


def _check(run: Any, handler: Any) -> None:
    """Raise an `AttributeError` if the toolkit's classes are not as expected."""
    for name in _NEEDED:
        getattr(run, name)
    parameters = list(signature(handler.run_workflow_remote_single).parameters)
    if parameters != ["self", "session", "item"]:
        raise AttributeError(f"run_workflow_remote_single has the parameters {parameters}")


def journaled_run(base: Any) -> Any:
    """Return the `EvaluationRun` that journals.

    Args:
        base: The toolkit's.
    """

    class JournaledRun(base):  # type: ignore[misc]
        eval_input: Any

        async def run_and_evaluate(self, *args: Any, **kwargs: Any) -> Any:
            self.callback_manager.register(SimpleNamespace(on_eval_started=self._open_journal))
            with _closing_journal():
                output = await super().run_and_evaluate(*args, **kwargs)
                _end(output)
            return output

        def cleanup_output_directory(self) -> None:
            with ExitStack() as stack:
                _safely(
                    "a run of Limpet may be deleted",
                    lambda: stack.enter_context(_eval_journal().keeping_runs(self)),
                )
                super().cleanup_output_directory()

        def _open_journal(self, **_: Any) -> None:
            """Called by the toolkit after the dataset is read, before anything is built."""
            if self.eval_input.eval_input_items and not self.config.skip_workflow:
                _journal.set(_safely("no journal", lambda: _eval_journal().open_journal(self)))

        async def run_workflow_local(self, *args: Any, **kwargs: Any) -> None:
            journal = _journal.get()
            if journal is None:
                await super().run_workflow_local(*args, **kwargs)
                return
            await self._report(journal.restored)
            self.callback_manager.register(journal)
            whole = self.eval_input
            missing = [item for item in whole.eval_input_items if not journal.is_done(item)]
            self.eval_input = whole.model_copy(update={"eval_input_items": missing})
            try:
                if missing:
                    await super().run_workflow_local(*args, **kwargs)
            finally:
                self.eval_input = whole

        async def _report(self, items: list[Any]) -> None:
            """Count the usage of restored items, and show them to the toolkit's callbacks."""
            for item in items:
                stats = self._compute_usage_stats(item)
                self.callback_manager.on_prediction(item=item, output=item.output_obj)
                await self.callback_manager.a_on_usage_stats(item=item, usage_stats_item=stats)

    return JournaledRun


def journaled_handler(base: Any) -> Any:
    """Return the handler of a served workflow that journals.

    Args:
        base: The toolkit's.
    """

    class JournaledHandler(base):  # type: ignore[misc]
        async def run_workflow_remote_single(self, session: Any, item: Any) -> None:
            journal = _journal.get()
            if journal is not None and journal.is_done(item):
                return
            await super().run_workflow_remote_single(session=session, item=item)
            if journal is not None and item.output_obj is not None:  # None: the call failed
                await journal.record(item)

    return JournaledHandler


@contextmanager
def _closing_journal() -> Iterator[None]:
    """Close a journal opened within the block."""
    token = _journal.set(None)
    try:
        yield
    finally:
        journal = _journal.get()
        _journal.reset(token)
        if journal is not None:
            journal.close()


def _end(output: Any) -> None:
    journal = _journal.get()
    if journal is not None:
        _safely(f"{journal.path} stays", lambda: journal.end(output))


def _eval_journal() -> Any:
    return import_module("limpet.integrations.nat.eval_journal")


def _safely(otherwise: str, do: Callable[[], Any]) -> Any:
    """Call a function of ours. `nat eval` must work without it: a failure is logged."""
    try:
        return do()
    except Exception as error:  # noqa: BLE001 - anything
        logger.warning("limpet: %s: %s: %s", otherwise, type(error).__name__, error)
        return None


install()
