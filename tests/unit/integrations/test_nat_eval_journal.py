"""The journal of `nat eval`, without the toolkit: which answers are restored, which never."""

import asyncio
import datetime as dt
import errno
import json
import logging
import math
import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest
from pydantic import BaseModel

from limpet.errors import JournalError, RunLockedError
from limpet.integrations.nat import eval_plugin
from limpet.integrations.nat.eval_journal import AnswerIdentity, EvalJournal, record_of
from limpet.json_values import NotPlainError


class Step(BaseModel):
    kind: str = "LLM_END"
    data: Any = None


def asked(*inputs):
    return [
        SimpleNamespace(id=f"q{n}", input_obj=value, output_obj="", trajectory=[])
        for n, value in enumerate(inputs)
    ]


def opened(folder, items, *, command="the command", files="the files", **parts):
    by = AnswerIdentity(files, command, parts or {"workflow": "one"})
    return EvalJournal(folder / "out.journal", by, items, Step.model_validate)


def ended(folder, file=None, **more):
    """End a run of which everything is on disk; `file` is the toolkit's final one."""
    journal = opened(folder, asked("a"), **more)
    journal.end(SimpleNamespace(workflow_output_file=file))
    journal.close()


def answer(folder, items, outputs, **more):
    """Journal an answer of each item, as a process that is then killed would."""

    async def work():
        journal = opened(folder, items, **more)
        for item, output in zip(items, outputs, strict=False):
            item.output_obj, item.trajectory = output, [Step(data={"output": output})]
            await journal.record(item)
        journal.close()

    asyncio.run(work())


def found(folder, items, **more):
    """Return the ids of the items whose answers come back."""
    journal = opened(folder, items, **more)
    journal.close()
    return [item.id for item in journal.restored]


VALUES = ["", "text", 7, 0.1, None, True, [1, "a"], {"k": [None]}, b"\x00\xff", 2**70, "\ud800"]


def test_answers_come_back_as_they_were(tmp_path):
    inputs = [f"ask {n}" for n in range(len(VALUES))]
    answer(tmp_path, asked(*inputs), VALUES)
    items = asked(*inputs)
    assert len(found(tmp_path, items)) == len(VALUES)
    assert [item.output_obj for item in items] == VALUES
    assert [type(item.output_obj) for item in items] == [type(value) for value in VALUES]
    assert [item.trajectory for item in items] == [[Step(data={"output": v})] for v in VALUES]


def test_a_nan_comes_back(tmp_path):
    answer(tmp_path, asked("a"), [math.nan])
    [item] = items = asked("a")
    assert found(tmp_path, items)
    assert math.isnan(item.output_obj)


class Text(str):
    """What LangChain returns for the text of a message."""

    __slots__ = ()


def test_a_string_of_another_library_comes_back_as_a_string(tmp_path):
    answer(tmp_path, asked("a"), [Text("said")])
    [item] = items = asked("a")
    assert found(tmp_path, items)
    assert item.output_obj == "said"
    assert item.trajectory == [Step(data={"output": "said"})]


@pytest.mark.parametrize(
    "value",
    [(1, 2), {1, 2}, dt.date(2026, 1, 1), {1: "a"}, object(), [{"deep": UUID(int=1)}], Decimal(1)],
)
def test_a_value_that_json_would_change_is_not_journaled_and_said(tmp_path, caplog, value):
    with pytest.raises(NotPlainError):
        record_of(value, [], Step.model_validate)
    with caplog.at_level(logging.WARNING, "limpet.nat"):
        answer(tmp_path, asked("a", "b"), [value, "fine"])
    assert "the answer to q0 is not journaled" in caplog.text
    assert found(tmp_path, asked("a", "b")) == ["q1"]


@pytest.mark.parametrize("value", [(1, 2), dt.date(2026, 1, 1), object(), [{"deep": UUID(int=1)}]])
def test_a_step_with_objects_is_journaled_in_its_json_form(value):
    record = record_of("fine", [Step(data=value)], Step.model_validate)
    assert json.loads(json.dumps(record)) == record
    assert Step.model_validate(record["steps"][0])


def test_an_edited_question_has_no_answer(tmp_path):
    answer(tmp_path, asked("a", "b"), ["A", "B"])
    assert found(tmp_path, asked("a", "b, edited")) == ["q0"]


def test_an_answer_of_another_configuration_is_not_taken(tmp_path):
    answer(tmp_path, asked("a"), ["A"])
    assert found(tmp_path, asked("a"), workflow="another") == []
    assert found(tmp_path, asked("a"), command="another") == []


def test_what_changed_since_an_answer_is_said_in_one_line(tmp_path):
    answer(tmp_path, asked("a", "b"), ["A", "B"], workflow="one", llms="small")
    answer(tmp_path, asked("a"), ["A"], files="of another run", workflow="other")
    journal = opened(tmp_path, asked("a", "b"), workflow="one", llms="large", functions="new")
    assert journal.differs == "2 answers on disk are not used: functions, llms changed afterwards"
    journal.close()
    journal = opened(tmp_path, asked("a", "b"), workflow="one", llms="small")
    assert (journal.differs, len(journal.restored)) == ("", 2)
    journal.close()


def test_a_number_is_not_the_same_question_as_its_text(tmp_path):
    answer(tmp_path, asked(1), ["A"])
    assert found(tmp_path, asked("1")) == []


def test_equal_items_without_ids_have_an_answer_each(tmp_path):
    def equal():
        items = asked("same", "same", "same")
        for item in items:
            item.id = ""
        return items

    answer(tmp_path, equal(), ["first", "second"])
    items = equal()
    assert len(found(tmp_path, items)) == 2
    assert [item.output_obj for item in items] == ["first", "second", ""]


def test_items_that_were_not_answered_keep_what_they_had(tmp_path):
    answer(tmp_path, asked("a"), ["A"])
    items = asked("a", "b")
    items[1].output_obj = "from the dataset"
    assert found(tmp_path, items) == ["q0"]
    assert items[1].output_obj == "from the dataset"


def test_a_finished_journal_leaves_nothing(tmp_path):
    final = tmp_path / "workflow_output.json"
    final.write_text("[]", encoding="utf-8")
    answer(tmp_path, asked("a"), ["A"])
    ended(tmp_path, final)
    assert list(tmp_path.iterdir()) == [final]
    assert found(tmp_path, asked("a")) == []


def test_answers_that_no_final_file_has_are_kept_and_not_read_again(tmp_path):
    for value in ("A", "B"):
        answer(tmp_path, asked("a"), [value])
        ended(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["out.journal.ended"]
    [line] = (tmp_path / "out.journal.ended/workflow_output.jsonl").read_text().splitlines()
    assert json.loads(line)["output"] == "B"  # one is kept
    assert found(tmp_path, asked("a")) == []


def test_a_run_without_answers_leaves_those_of_the_last_one(tmp_path):
    answer(tmp_path, asked("a"), ["A"])
    ended(tmp_path)
    ended(tmp_path)
    assert (tmp_path / "out.journal.ended/workflow_output.jsonl").exists()


@pytest.mark.parametrize("has_file", [True, False])
def test_a_run_ends_only_its_own_answers(tmp_path, has_file):
    final = tmp_path / "final.json"
    final.touch()
    answer(tmp_path, asked("a", "b"), ["A", "B"], command="another")
    answer(tmp_path, asked("a"), ["A"], workflow="before an edit")
    answer(tmp_path, asked("a"), ["A"])
    ended(tmp_path, final if has_file else None)
    assert found(tmp_path, asked("a")) == []
    assert found(tmp_path, asked("a"), workflow="before an edit") == []
    assert found(tmp_path, asked("a", "b"), command="another") == ["q0", "q1"]
    assert (tmp_path / "out.journal.ended").exists() is not has_file


def test_a_damaged_line_is_not_deleted_with_a_run(tmp_path):
    answer(tmp_path, asked("a", "b"), ["A", "B"])
    column = tmp_path / "out.journal/workflow_output.jsonl"
    column.write_bytes(column.read_bytes().replace(b'"A"', b'"?"'))
    assert found(tmp_path, asked("a", "b")) == ["q1"]
    ended(tmp_path)
    assert b'"?"' in column.read_bytes()


def test_what_a_kill_left_of_a_finished_journal_is_deleted_with_the_next(tmp_path):
    answer(tmp_path, asked("a"), ["A"])
    (tmp_path / "out.journal").rename(tmp_path / "out.journal.finished")
    answer(tmp_path, asked("a"), ["A"])
    ended(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["out.journal.ended"]


def test_two_do_not_write_at_once(tmp_path):
    first = opened(tmp_path, asked("a"))
    with pytest.raises(RunLockedError):
        opened(tmp_path, asked("a"))
    first.close()


def test_a_directory_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "out.journal").mkdir()
    (tmp_path / "out.journal/mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(JournalError, match="not a journal"):
        opened(tmp_path, asked("a"))
    assert [path.name for path in (tmp_path / "out.journal").iterdir()] == ["mine.txt"]


def test_an_answer_that_comes_after_the_end_is_not_an_error(tmp_path, caplog):
    async def work():
        [item] = items = asked("a")
        journal = opened(tmp_path, items)
        journal.close()
        await journal.record(item)

    asyncio.run(work())
    assert "not journaled: the journal is closed" in caplog.text


def test_a_full_disk_is_said_once_and_the_evaluation_goes_on(tmp_path, monkeypatch, caplog):
    real, column = os.writev, tmp_path / "out.journal/workflow_output.jsonl"
    full = [True]

    def writev(fd, parts):
        if full[0] and Path(f"/proc/self/fd/{fd}").readlink() == column:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, parts)

    async def work():
        items = asked("a", "b", "c")
        journal = opened(tmp_path, items)
        await journal.record(items[0])
        await journal.record(items[1])
        full[0] = False
        await journal.record(items[2])
        journal.close()
        assert all(map(journal.is_done, items))

    monkeypatch.setattr(os, "writev", writev)
    asyncio.run(work())
    assert caplog.text.count("is not journaled") == 1
    assert found(tmp_path, asked("a", "b", "c")) == ["q2"]


# ---- the plug-in --------------------------------------------------------------------------------


def test_the_plug_in_imports_nothing_heavy():
    code = (
        "import sys, limpet.integrations.nat.eval_plugin;"
        "heavy = ('limpet.', 'orjson', 'pydantic');"
        "print(*[name for name in sys.modules if name.startswith(heavy)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [
        "limpet.integrations",
        "limpet.integrations.nat",
        "limpet.integrations.nat.eval_plugin",
    ]


def as_nat(monkeypatch, **modules):
    """Pretend to be the command `nat eval`, of a version with these modules."""
    monkeypatch.setattr(sys, "argv", ["nat", "eval"])
    monkeypatch.setitem(sys.modules, "nat.cli.entrypoint", SimpleNamespace())
    names = ("nat.plugins.eval.cli.evaluate", "nat.plugins.eval.runtime.remote_workflow")
    for name in names:
        module = modules.get(name.rpartition(".")[2])
        monkeypatch.setitem(sys.modules, name, module)


class Run:
    callback_manager = SimpleNamespace(register=lambda _: None)

    def cleanup_output_directory(self): ...
    async def run_and_evaluate(self): ...
    async def run_workflow_local(self): ...
    async def run_workflow_remote(self): ...
    def _compute_usage_stats(self, item): ...


class Handler:
    async def run_workflow_remote_single(self, session, item): ...


class OtherHandler:
    async def run_workflow_remote_single(self, client, item): ...


def test_a_version_of_the_toolkit_that_it_knows_gets_both_classes(monkeypatch):
    evaluate = SimpleNamespace(EvaluationRun=Run)
    remote = SimpleNamespace(EvaluationRemoteWorkflowHandler=Handler)
    as_nat(monkeypatch, evaluate=evaluate, remote_workflow=remote)
    eval_plugin.install()
    assert issubclass(evaluate.EvaluationRun, Run)
    assert evaluate.EvaluationRun is not Run
    assert issubclass(remote.EvaluationRemoteWorkflowHandler, Handler)
    assert remote.EvaluationRemoteWorkflowHandler is not Handler


@pytest.mark.parametrize(
    ("run", "handler"), [(Run, OtherHandler), (object, Handler), (Run, object), (None, None)]
)
def test_a_version_of_the_toolkit_that_it_does_not_know_is_left_alone(
    monkeypatch, caplog, run, handler
):
    evaluate = SimpleNamespace(EvaluationRun=run) if run else None
    remote = SimpleNamespace(EvaluationRemoteWorkflowHandler=handler)
    as_nat(monkeypatch, evaluate=evaluate, remote_workflow=remote)
    eval_plugin.install()
    assert caplog.text.count("limpet: no journal") == 1
    assert evaluate is None or evaluate.EvaluationRun is run
    assert remote.EvaluationRemoteWorkflowHandler is handler


def test_an_error_of_the_toolkit_passes_unchanged():
    class Broken(Run):
        async def run_and_evaluate(self):
            raise LookupError("the toolkit's own")

    with pytest.raises(LookupError, match="the toolkit's own"):
        asyncio.run(eval_plugin.journaled_run(Broken)().run_and_evaluate())


def test_without_a_journal_the_toolkit_runs_as_it_is(caplog):
    """A run that lacks everything the journal reads is one of a version that we do not know."""

    class Local(Run):
        done = False
        eval_input = SimpleNamespace(eval_input_items=asked("a"))
        config = SimpleNamespace(skip_workflow=False)

        async def run_and_evaluate(self):
            self.cleanup_output_directory()
            self._open_journal()
            await self.run_workflow_local()
            return self.done

        async def run_workflow_local(self):
            self.done = True

    assert asyncio.run(eval_plugin.journaled_run(Local)().run_and_evaluate()) is True
    assert caplog.text.count("limpet: no journal") == 1


def test_the_switch_leaves_the_toolkits_classes_untouched(monkeypatch):
    evaluate = SimpleNamespace(EvaluationRun=Run)
    remote = SimpleNamespace(EvaluationRemoteWorkflowHandler=Handler)
    as_nat(monkeypatch, evaluate=evaluate, remote_workflow=remote)
    monkeypatch.setenv(eval_plugin.SWITCH, "0")
    eval_plugin.install()
    assert (evaluate.EvaluationRun, remote.EvaluationRemoteWorkflowHandler) == (Run, Handler)
