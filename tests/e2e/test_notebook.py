"""A real notebook kernel: `run()` works as it is, and the interrupt button stops it cleanly."""

import re
from pathlib import Path

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]

SETUP = """
import asyncio
from limpet import AsyncExecutor

async def fn(x):
    if x < 5:
        return x
    print("in flight", flush=True)
    await asyncio.sleep(1000)
"""
RUN = """
asyncio.get_running_loop()  # a notebook has one
executor = AsyncExecutor(fn, concurrency=1, fallback_return_value=None)
print(executor.run(range(5))[0])
"""
RUN_AND_INTERRUPT = """
print(executor.run(range(7))[0], type(executor.stop_reason).__name__)
"""


@pytest.fixture(scope="module")
def kernel():
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    client.start_channels()
    client.wait_for_ready(timeout=250)
    yield manager, client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def run_cell(client, code, on_text=lambda text: None):
    text = []

    def hook(message):
        content = message["content"]
        if message["msg_type"] == "stream" and content["name"] == "stdout":
            text.append(content["text"])
            on_text(content["text"])
        assert message["msg_type"] != "error", content

    client.execute_interactive(code, output_hook=hook, timeout=250)
    return "".join(text)


def test_run_works_in_a_notebook_as_it_is_and_its_interrupt_stops_it_cleanly(kernel):
    manager, client = kernel
    run_cell(client, SETUP)
    assert run_cell(client, RUN) == "[0, 1, 2, 3, 4]\n"

    def interrupt(text):
        if "in flight" in text:
            manager.interrupt_kernel()

    shown = run_cell(client, RUN_AND_INTERRUPT, on_text=interrupt)
    assert shown == "in flight\n[0, 1, 2, 3, 4, None, None] InterruptedRunError\n"
    assert run_cell(client, "print(1 + 1)") == "2\n"  # the kernel is none the worse for it


MAP = """
import limpet, tempfile, pathlib

async def shout(x):
    return x.upper()

path = pathlib.Path(tempfile.mkdtemp()) / "out.jsonl"
first = limpet.map(shout, ["a", "b"], journal=path)
second = await limpet.amap(shout, ["b", "c"], journal=path)
print(first.outputs, second.outputs, second)
"""
EDITED = """
async def shout(x):
    return x.upper() + "!"

try:
    limpet.map(shout, ["a"], journal=path)
except limpet.FunctionChangedError as error:
    print(error)
"""


def test_map_works_in_a_notebook_and_sees_an_edited_cell(kernel):
    _, client = kernel
    shown = "['A', 'B'] ['B', 'C'] <MapResult: 2 inputs, 1 kept, 1 ran>\n"
    assert run_cell(client, MAP) == shown
    assert run_cell(client, EDITED) == (
        "the function changed after the results of 1 of 1 inputs were made: `shout`\n"
    )


EVALUATE = """
def judge(output):
    return len(output)

rows = [{"id": str(n), "question": "x" * n} for n in range(1, 4)]
options = {"run": path.parent / "run", "version": "1"}
first = limpet.evaluate(rows, lambda question: question, [judge], **options)
second = await limpet.aevaluate(rows, lambda question: question, [judge], **options)
print(first, second.plan.calls)
"""


def test_evaluate_works_in_a_notebook_as_it_is(kernel):
    _, client = kernel
    run_cell(client, MAP)
    shown = "<EvaluationResult: 3 of 3 completed; judge 2.00 (-0.5 to 4.5)> 0\n"
    assert run_cell(client, EVALUATE) == shown


@pytest.mark.slow  # a kernel of its own; the others show the same of theirs
def test_the_example_notebook_shows_a_live_table_and_a_summary(tmp_path):
    notebook = nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4)
    live = []

    def note(cell, cell_index, execute_reply=None, **_):
        for output in cell.get("outputs", []):
            if output.output_type == "display_data":
                live.append(output.data["text/html"])

    client = NotebookClient(
        notebook,
        timeout=250,
        resources={"metadata": {"path": str(tmp_path)}},
        on_cell_executed=note,
    )
    client.execute()
    assert all('<progress max="' in html for html in live)
    assert len(live) == 2
    results = [
        output
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "execute_result"
    ]
    first, second, mapped = (one.data["text/html"] for one in results)
    assert "<td>correct</td><td>40/40</td><td></td><td></td><td>1.000 (0.91–1.00)</td>" in first
    assert "<td>correct</td><td>50/50</td>" in second
    assert "<td>50</td><td>0</td><td>50</td>" in mapped
    told = "".join(cell.outputs[0].text for cell in notebook.cells if cell.id == "cell-4")
    planned, foreseen = told.splitlines()
    assert planned == "50 items × 1 trial: 40 kept, 10 new → 10 calls of workflow, 10 of correct"
    assert foreseen.startswith("about 10 calls, ")


EVALUATE_SLOWLY = """
import asyncio, tempfile, limpet

async def answer(question):
    await asyncio.sleep(0.1)
    return question

rows = [{"id": f"<b>{n}", "question": str(n), "answer": str(n)} for n in range(45)]
limpet.evaluate(
    rows, answer, [limpet.exact_match()], run=tempfile.mkdtemp() + "/run", pace=3
)
"""


def test_an_evaluation_shows_how_far_it_is_while_it_runs(kernel):
    _, client = kernel
    frames = []

    def hook(message):
        if message["msg_type"] == "update_display_data":
            frames.append(message["content"]["data"]["text/html"])
        assert message["msg_type"] != "error", message["content"]

    client.execute_interactive(EVALUATE_SLOWLY, output_hook=hook, timeout=250)
    ended = [int(re.search(r'max="45" value="(\d+)"', frame)[1]) for frame in frames]
    assert ended == sorted(ended)
    assert any(0 < value < 45 for value in ended)
    assert ended[-1] == 45


INTERRUPTED = """
import asyncio, tempfile, limpet

async def answer(question):
    if question == "3":
        print("in flight", flush=True)
        await asyncio.sleep(3600)
    return question

rows = [{"id": str(n), "question": str(n)} for n in range(9)]
result = limpet.evaluate(rows, answer, run=tempfile.mkdtemp() + "/run", pace=1)
print("the cell goes on")
"""


def test_an_interrupt_stops_an_evaluation_and_its_cell_and_shows_what_is_done(kernel):
    manager, client = kernel
    messages = []

    def hook(message):
        messages.append((message["msg_type"], message["content"]))
        if "in flight" in str(message["content"].get("text")):
            manager.interrupt_kernel()

    client.execute_interactive(INTERRUPTED, output_hook=hook, timeout=250)
    (error,) = [content for kind, content in messages if kind == "error"]
    assert error["ename"] == "KeyboardInterrupt"
    assert error["evalue"] == "the run was interrupted; run it again to resume"
    *_, shown = [content["data"] for kind, content in messages if kind == "display_data"]
    assert "<td>workflow</td><td>3/9</td>" in shown["text/html"]
    assert "<p>stopped: the run was interrupted</p>" in shown["text/html"]
    assert [content["text"] for kind, content in messages if kind == "stream"] == ["in flight\n"]
    kept = "import sys\nprint(len(sys.last_value.result.items))"
    assert run_cell(client, kept) == "9\n"


RELOADED = """
%load_ext autoreload
%autoreload 2
import os, sys, tempfile
from pathlib import Path
import limpet

folder = Path(tempfile.mkdtemp())
sys.path.insert(0, str(folder))

def write(text):
    before = {one.stat().st_mtime_ns for one in folder.glob("app_reloaded.py")}
    (folder / "app_reloaded.py").write_text(text)
    later = max(before, default=0) + 2_000_000_000  # autoreload looks at whole seconds
    if before:
        os.utime(folder / "app_reloaded.py", ns=(later, later))

def outcome():
    rows = [{"id": "1", "input": "a"}]
    result = limpet.evaluate(rows, app_reloaded.answer, run=folder / "run")
    return f"{result.plan.workflow.kept} kept"

write("MODEL = 'one'\\ndef answer(input):\\n    return MODEL + input\\n")
import app_reloaded
print(outcome(), outcome())
write("# a remark\\nMODEL = 'one'\\ndef answer(input):\\n    return MODEL + input\\n")
"""
AFTER_A_REMARK = """
print(outcome())
write("# a remark\\nMODEL = 'two'\\ndef answer(input):\\n    return MODEL + input\\n")
"""


def test_autoreload_is_seen_and_a_remark_that_is_reloaded_changes_nothing(kernel):
    _, client = kernel
    assert run_cell(client, RELOADED) == "0 kept 1 kept\n"
    assert run_cell(client, AFTER_A_REMARK) == "1 kept\n"
    assert run_cell(client, "print(outcome(), app_reloaded.MODEL)") == "0 kept two\n"
