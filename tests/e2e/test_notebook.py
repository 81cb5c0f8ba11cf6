"""A real notebook kernel: `run()` works as it is, and the interrupt button stops it cleanly."""

import pytest
from jupyter_client.manager import KernelManager

SETUP = """
import asyncio
from holdfast import AsyncExecutor

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
    client.wait_for_ready(timeout=40)
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

    client.execute_interactive(code, output_hook=hook, timeout=30)
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
import holdfast, tempfile, pathlib

async def shout(x):
    return x.upper()

path = pathlib.Path(tempfile.mkdtemp()) / "out.jsonl"
first = holdfast.map(shout, ["a", "b"], journal=path, tqdm_bar_format=None)
second = await holdfast.amap(shout, ["b", "c"], journal=path, tqdm_bar_format=None)
print(first.outputs, second.outputs, second)
"""
EDITED = """
async def shout(x):
    return x.upper() + "!"

try:
    holdfast.map(shout, ["a"], journal=path)
except holdfast.FunctionChangedError as error:
    print(error)
"""


def test_map_works_in_a_notebook_and_sees_an_edited_cell(kernel):
    _, client = kernel
    shown = "['A', 'B'] ['B', 'C'] <MapResult: 2 inputs, 1 kept, 1 ran>\n"
    assert run_cell(client, MAP) == shown
    assert run_cell(client, EDITED) == (
        "the function changed since the results of 1 of 1 inputs were made: shout\n"
    )


EVALUATE = """
def judge(output):
    return len(output)

rows = [{"id": str(n), "question": "x" * n} for n in range(1, 4)]
options = {"run": path.parent / "run", "tqdm_bar_format": None, "version": "1"}
first = holdfast.evaluate(rows, lambda question: question, [judge], **options)
second = await holdfast.aevaluate(rows, lambda question: question, [judge], **options)
print(first, second.plan.calls)
"""


def test_evaluate_works_in_a_notebook_as_it_is(kernel):
    _, client = kernel
    run_cell(client, MAP)
    shown = "<EvaluationResult: 3 of 3 completed; judge 2 (n=3)> 0\n"
    assert run_cell(client, EVALUATE) == shown
