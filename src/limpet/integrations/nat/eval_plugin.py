"""How does `nat eval` itself journal its answers and resume?

The toolkit loads this module by its entry point. It has callbacks for evaluations, but they cannot
do it alone: none can skip an item that has its answer, and for a served workflow they are called
when all items are finished. So the command gets a subclass of its `EvaluationRun`, and that one a
subclass of the handler that calls a served workflow. Other users of these classes get neither.

Limpet's own modules are imported when an evaluation starts: `nat --help` needs none of them.
"""

import logging
import os
import sys
from contextvars import ContextVar
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from limpet.integrations.nat.eval_journal import EvalJournal

SWITCH = "LIMPET_NAT_JOURNAL"
"""The environment variable that turns it off: `0`."""

logger = logging.getLogger("limpet.nat")
_NEEDED = ("run_and_evaluate", "run_workflow_local", "run_workflow_remote", "_compute_usage_stats")
_journal: ContextVar["EvalJournal | None"] = ContextVar("limpet_nat_journal", default=None)


def install() -> None:
    """Let `nat eval` journal, if this process is the command `nat`."""
    if "nat.cli.entrypoint" not in sys.modules:
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
    """Raise an `AttributeError` if the toolkit's classes are not those that we know."""
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
            token = _journal.set(None)
            try:
                output = await super().run_and_evaluate(*args, **kwargs)
                _end(self, output)
                return output
            finally:
                journal = _journal.get()
                _journal.reset(token)
                if journal is not None:
                    journal.close()

        async def run_workflow_local(self, *args: Any, **kwargs: Any) -> None:
            journal = _open(self)
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

        async def run_workflow_remote(self, *args: Any, **kwargs: Any) -> None:
            _open(self)
            await super().run_workflow_remote(*args, **kwargs)

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


def _open(run: Any) -> "EvalJournal | None":
    """Open the journal of a run. Without one, the evaluation goes on."""
    if os.environ.get(SWITCH) == "0":
        return None
    try:
        eval_journal = import_module("limpet.integrations.nat.eval_journal")
        journal: EvalJournal = eval_journal.open_journal(run)
    except Exception as error:  # noqa: BLE001 - `nat eval` must work without us
        logger.warning("limpet: no journal: %s: %s", type(error).__name__, error)
        return None
    found, items = len(journal.restored), len(run.eval_input.eval_input_items)
    count = f"{found} of {items} answers found"
    hint = "; delete it to start anew" if found else ""
    logger.info("limpet: journaling to %s; %s%s", journal.path, count, hint)
    _journal.set(journal)
    return journal


def _end(run: Any, output: Any) -> None:
    """Delete the journal if the toolkit has written everything; else say that it stays."""
    journal = _journal.get()
    if journal is None:
        return
    try:
        files = _final_files(run, output)
        if journal.is_complete and files:
            journal.finish(files)
        else:
            logger.info(
                "limpet: %s in %s; the same command continues", journal.summary, journal.path
            )
    except Exception as error:  # noqa: BLE001 - as above
        logger.warning("limpet: %s stays: %s: %s", journal.path, type(error).__name__, error)


def _final_files(run: Any, output: Any) -> list[Path]:
    """Return the files that the toolkit has written; empty if something is missing.

    It writes none without a score, and none for an evaluator that raised.
    """
    answers, scores = output.workflow_output_file, output.evaluator_output_files
    if output.workflow_interrupted or answers is None:
        return []
    return [answers, *scores] if len(scores) == len(run.eval_config.evaluators) else []


install()
