"""Programs as workflows, with real processes.

What would break the promises, and what happens instead:

| a program that …                                  | what happens                                |
|---------------------------------------------------|---------------------------------------------|
| does not read its stdin, however large the row    | its answer counts                           |
| writes without end to stdout, to stderr           | it is killed; the end is kept               |
| leaves a process that holds its stdout, its stderr| a failure; its answer counts; both: killed  |
| ignores SIGTERM, has children that do             | SIGKILL to the whole group                  |
| is cancelled while it starts                      | it is killed all the same                   |
| exits with 3, with 75, by a signal                | for good; tried again; tried again          |
| writes bytes that are no text, or no JSON         | a failure, nothing is altered               |
| is missing, not executable, without interpreter   | the run does not begin                      |
| gets a NUL, half a character, a megabyte, `$(rm)` | a failure; one argument                     |
| runs 200 times at once                            | no zombie, no descriptor is left            |
"""

import asyncio
import gc
import json
import os
import signal
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from limpet.errors import LimpetError, PermanentError, SetupError, TransientError
from limpet.shapes import Item
from limpet.workflows import command

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def python(code, **options):
    """Return a workflow that runs some Python."""
    Path("agent.py").write_text(textwrap.dedent(code), encoding="utf-8")
    return command([sys.executable, "-S", "agent.py"], **options)


def shell(script, *arguments, **options):
    return command(["sh", "-c", script, "sh", *arguments], **options)


def item(**row):
    return Item(row.get("id", "a"), row.get("question"), None, row)


async def opened(workflow, do):
    await workflow.open()
    try:
        return await do(workflow)
    finally:
        await workflow.close()
        await told_of_every_end()


def output(workflow, **row):
    return asyncio.run(opened(workflow, lambda opened: opened.call(item(**row))))


def answer(workflow, **row):
    return output(workflow, **row).value


def failure(workflow, **row):
    with pytest.raises(LimpetError) as caught:
        answer(workflow, **row)
    return caught.value


def pids_in(path, count):
    """Return the pids that a program wrote, one per line; None if there are fewer yet."""
    lines = Path(path).read_text().split("\n")[:-1] if Path(path).exists() else []
    return list(map(int, lines)) if len(lines) >= count else None


def is_alive(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"  # init has not reaped it yet


def wait_for_the_end_of(pids):
    """Wait until processes are gone: they were killed, but the system may take its time."""
    while any(map(is_alive, pids)):
        time.sleep(0.01)


async def until(condition):
    while not (value := condition()):  # noqa: ASYNC110 - other processes have no events
        await asyncio.sleep(0.01)
    return value


async def told_of_every_end():
    """Wait until the loop knows of each process that ended, or it warns when it is closed."""
    await until(lambda: not any("waitpid" in thread.name for thread in threading.enumerate()))


async def cancelled_after(workflow, condition):
    """Call a workflow, cancel the call once a condition holds, and return its value."""
    call = asyncio.ensure_future(workflow.call(item(question="q")))
    value = await until(condition)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    return value


# ---- what goes in and out -----------------------------------------------------------------------


def test_it_reads_the_row_from_stdin_and_answers_on_stdout():
    echo = python("import json, sys; print(json.load(sys.stdin)['question'][::-1])")
    assert answer(echo, question="stressed") == "desserts"


def test_only_the_last_newline_is_not_part_of_the_answer():
    assert answer(shell(r"printf ' a\n\n b \r\n\n'")) == " a\n\n b \r\n"
    assert answer(shell("printf a")) == "a"
    assert answer(shell("true")) == ""


def test_stdin_is_one_line_that_any_program_can_open():
    assert json.loads(answer(shell('read -r line; printf %s "$line"'), question="é\n")) == {
        "question": "é\n"
    }
    assert json.loads(answer(command("cat /dev/stdin"), question="x")) == {"question": "x"}


def test_a_program_need_not_read_its_input():
    assert answer(shell("exec <&-; echo done"), question="x" * 5_000_000) == "done"
    assert answer(shell("echo done"), question="x" * 5_000_000) == "done"


def test_input_and_output_larger_than_a_pipe_flow_at_once():
    text = "é" * 3_000_000
    assert json.loads(answer(command("cat", answer="text"), question=text)) == {"question": text}


@pytest.mark.parametrize("value", [None, 0, "x", [1, {"a": 2**70}], {"answer": None}])
def test_an_answer_may_be_any_json(value):
    Path("answer.json").write_text(json.dumps(value))
    assert answer(command("cat answer.json", answer="json")) == value


def test_an_answer_may_be_at_a_path():
    Path("answer.json").write_text('{"choices": [{"text": "yes"}]}')
    assert answer(command("cat answer.json", answer="$.choices[0].text")) == "yes"
    error = failure(command("cat answer.json", answer="$.answer"))
    assert "finds nothing" in str(error)


def test_stderr_is_kept_with_the_answer():
    assert output(shell("echo thinking >&2; echo 4")).metadata == {"stderr": "thinking\n"}
    assert output(shell("echo 4")).metadata is None
    assert output(shell(r"printf '\377\n' >&2; echo 4")).metadata == {"stderr": "\\xff\n"}


def test_placeholders_become_one_argument_each_whatever_they_contain():
    hostile = "$(touch pwned) `touch pwned`; touch pwned | * \n\"'"
    show = command([sys.executable, "-S", "-c", "import sys; print(ascii(sys.argv[1:]))",
                    "{{question}}", "--n={{n}}", "{{ list }}"])  # fmt: skip
    assert answer(show, question=hostile, n=3, list=[1, "a"]) == ascii(
        [hostile, "--n=3", '[1,"a"]']
    )
    assert not Path("pwned").exists()


def test_a_string_is_split_but_not_its_placeholders():
    words = command("printf '%s|' 'a b' {{ my column }} \"x {{question}}\"")
    row = {"my column": "1 2", "question": "3 4"}
    assert answer(words, **row) == "a b|1 2|x 3 4|"


def test_variables_are_added_to_the_environment(monkeypatch):
    monkeypatch.setenv("FROM_OUTSIDE", "1")
    shown = shell('echo "$FROM_OUTSIDE $MODE"', env={"MODE": "fast"})
    assert answer(shown) == "1 fast"


def test_it_runs_in_its_directory(folder):
    (folder / "inner").mkdir()
    assert answer(command("pwd", cwd="inner")) == str(folder / "inner")


# ---- failures -----------------------------------------------------------------------------------


def test_an_exit_status_is_a_failure_with_the_end_of_stderr():
    error = failure(python("import sys; sys.stdin.read(); {}['answer']"))
    assert type(error) is PermanentError
    assert str(error) == "python -S agent.py: exit status 1: KeyError: 'answer'"
    assert error.details.startswith("stderr:\nTraceback (most recent call last):\n  File ")
    assert failure(shell("exit 3")).details == ""


def test_an_exit_status_of_75_and_a_signal_may_pass():
    assert type(failure(shell("echo later >&2; exit 75"))) is TransientError
    error = failure(shell("kill -SEGV $$"))
    assert type(error) is TransientError
    assert "SIGSEGV" in str(error)


@pytest.mark.parametrize(
    ("workflow", "said"),
    [
        (lambda: shell(r"printf 'a\377b'"), "not UTF-8 at byte 1"),
        (lambda: shell("echo '{'", answer="json"), "the output is not JSON"),
        (lambda: shell("true", answer="json"), "the output is not JSON"),
        (lambda: shell("echo 1e999", answer="json"), "too large to store"),
        (lambda: shell("echo NaN", answer="json"), "not JSON"),
        (lambda: command(["printf", "{{text}}"]), "contains a NUL"),
    ],
)
def test_what_cannot_be_read_is_a_failure(workflow, said):
    error = failure(workflow(), text="a\0b")
    assert type(error) is PermanentError
    assert said in str(error)


def test_an_argument_that_cannot_be_passed_is_a_failure():
    assert "not valid Unicode" in str(failure(command(["printf", "{{text}}"]), text="\udcff"))
    error = failure(command(["printf", "{{text}}"]), text="x" * 3_000_000)
    assert type(error) is PermanentError
    assert "read the row from stdin" in error.hint


def test_a_row_that_is_no_json_is_not_sent_as_another_one():
    assert "cannot be written as JSON" in str(failure(command("cat"), n=float("nan")))


# ---- what must not hang, flood or survive -------------------------------------------------------


def test_a_program_that_writes_without_end_is_killed():
    error = failure(command("yes", max_output_mb=0.1))
    assert type(error) is PermanentError
    assert "more than 100.0 kB" in str(error)


def test_of_endless_stderr_the_end_is_kept():
    metadata = output(shell("yes | head -c 1000000 >&2; echo end >&2; echo 4")).metadata
    assert metadata["stderr"].endswith("y\nend\n")
    assert len(metadata["stderr"]) == 65_536
    assert metadata["stderr_bytes"] == 1_000_004


def test_a_process_that_holds_stdout_open_is_killed_and_no_answer_is_half():
    error = failure(shell("sleep 600 & echo $! > pids; echo half"))
    assert type(error) is PermanentError
    assert "held its stdout open" in str(error)
    wait_for_the_end_of(pids_in("pids", 1))


def test_a_process_that_holds_stderr_open_is_killed_and_the_answer_counts():
    assert answer(shell("sleep 600 >/dev/null & echo $! > pids; echo whole")) == "whole"
    wait_for_the_end_of(pids_in("pids", 1))


def test_output_that_comes_after_the_exit_is_part_of_the_answer():
    assert answer(shell("(sleep 0.2; echo late) & echo early")) == "early\nlate"


def test_a_cancelled_call_ends_the_program_and_its_children():
    tree = shell("sh -c 'echo $$ >> pids; sleep 600' & echo $$ >> pids; sleep 600")
    pids = asyncio.run(
        opened(tree, lambda opened: cancelled_after(opened, lambda: pids_in("pids", 2)))
    )
    wait_for_the_end_of(pids)


def test_children_that_ignore_sigterm_are_killed():
    script = "trap '' TERM; echo $$ >> pids; while true; do sleep 1; done"
    Path("stubborn.sh").write_text(script)
    tree = shell("sh stubborn.sh & sh stubborn.sh")
    pids = asyncio.run(
        opened(tree, lambda opened: cancelled_after(opened, lambda: pids_in("pids", 2)))
    )
    wait_for_the_end_of(pids)


def test_a_cancelled_program_may_clean_up(monkeypatch):
    monkeypatch.setattr("limpet.workflows.process.TERM_GRACE_S", 60)  # a busy machine takes longer
    tidy = python("""
        import os, pathlib, signal, sys, time
        def clean_up(*_):
            pathlib.Path("clean").touch()
            sys.exit(0)
        signal.signal(signal.SIGTERM, clean_up)
        sys.stdin.read()  # it comes when the call has noticed that its program started
        pathlib.Path("pids").write_text(f"{os.getpid()}\\n")
        time.sleep(600)
    """)
    asyncio.run(opened(tidy, lambda opened: cancelled_after(opened, lambda: pids_in("pids", 1))))
    assert Path("clean").exists()


def test_a_call_cancelled_while_it_starts_leaves_no_process():
    async def cancel_early(workflow):
        others = children_of(os.getpid(), but=workflow)  # other tests keep some
        for turns in range(12):
            call = asyncio.ensure_future(workflow.call(item(question="q")))
            for _ in range(turns):
                await asyncio.sleep(0)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        await until(lambda: children_of(os.getpid(), but=workflow) <= others)

    asyncio.run(opened(shell("sleep 600 & sleep 600"), cancel_early))


def test_closing_ends_what_a_dropped_run_left_behind():
    async def drop():
        workflow = shell("echo $$ >> pids; sleep 600 & echo $! >> pids; sleep 600")
        await workflow.open()
        call = asyncio.ensure_future(workflow.call(item(question="q")))
        pids = await until(lambda: pids_in("pids", 2))
        await workflow.close()
        with pytest.raises(TransientError, match="SIGKILL"):
            await call
        await told_of_every_end()
        return pids

    wait_for_the_end_of(asyncio.run(drop()))


@pytest.mark.parametrize("turns", range(0, 13, 3))
def test_closing_ends_a_program_that_is_just_starting(turns):
    async def close_early():
        workflow = shell("sleep 600 & sleep 600")
        await workflow.open()
        call = asyncio.ensure_future(workflow.call(item(question="q")))
        for _ in range(turns):
            await asyncio.sleep(0)
        await workflow.close()
        with pytest.raises(TransientError, match="SIGKILL"):
            await call
        await told_of_every_end()

    asyncio.run(close_early())


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # the loop may not have seen the exit
def test_a_loop_that_is_closed_under_a_call_ends_its_program():
    workflow = shell("echo $$ >> pids; sleep 600 & echo $! >> pids; sleep 600")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(workflow.open())
    call = loop.create_task(workflow.call(item(question="q")))
    pids = loop.run_until_complete(until(lambda: pids_in("pids", 2)))
    loop.run_until_complete(workflow.close())
    call.cancel()
    loop.run_until_complete(asyncio.wait({call}))
    loop.close()
    wait_for_the_end_of(pids)
    del loop, call
    gc.collect()  # it warns here, not in another test


def children_of(pid, but):
    guard = but._guard._process.pid
    threads = Path(f"/proc/{pid}/task").iterdir()
    pids = {int(word) for thread in threads for word in (thread / "children").read_text().split()}
    return pids - {guard}


@pytest.mark.slow  # one that is killed leaves nothing either
def test_two_hundred_at_once_leave_nothing_behind():
    def descriptors():
        return len(list(Path("/proc/self/fd").iterdir()))

    async def many(workflow):
        before, others = descriptors(), children_of(os.getpid(), but=workflow)
        calls = [workflow.call(item(id=str(n), question=str(n))) for n in range(200)]
        outputs = await asyncio.gather(*calls)
        for _ in range(5):  # transports close their pipes in the next turns of the loop
            await asyncio.sleep(0)
        left = children_of(os.getpid(), but=workflow) - others
        return [output.value for output in outputs], descriptors() - before, left

    values, more, left = asyncio.run(opened(command(["printf", "{{question}}"]), many))
    assert values == [str(n) for n in range(200)]
    assert (more, left) == (0, set())
    gc.collect()  # an unclosed transport would warn here, and a warning is an error


# ---- before the first call ----------------------------------------------------------------------


def test_a_program_that_is_not_there_is_an_error_before_the_first_call(folder):
    (folder / "agent.sh").write_text("echo 4")
    cases = {
        "no-such-program x": ("is not on the PATH", "install it"),
        "agent.sh": ("is not on the PATH", "write ./agent.sh"),
        "./agnt.sh": ("there is no program './agnt.sh'", "did you mean 'agent.sh'?"),
        "./agent.sh": ("is not executable", "chmod +x ./agent.sh"),
        "sh agnt.sh": ("there is no file 'agnt.sh'", "did you mean 'agent.sh'?"),
    }
    for argv, (said, hint) in cases.items():
        error = failure(command(argv))
        assert type(error) is SetupError
        assert said in str(error)
        assert hint in error.hint
    assert "no directory" in str(failure(command("true", cwd="nowhere")))


def test_a_script_without_an_interpreter_is_said(folder):
    (folder / "agent").write_text("echo 4")
    (folder / "agent").chmod(0o755)
    error = failure(command("./agent"))
    assert type(error) is SetupError
    assert "#!" in error.hint


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ("", "must not be empty"),
        ([], "must not be empty"),
        ([1], "must be a list of strings"),
        ("{{question}} x", "must not choose the program"),
        ("cat {{question", "has no '}}'"),
        ("cat 'x", "cannot be split"),
        ("cat a | wc", "there is no shell"),
        ("cat a 2>&1", "there is no shell"),
        (["sh", "-c", "echo {{question}}"], "as code"),
        (["docker", "exec", "it", "bash", "-o", "pipefail", "-lc", "x {{question}}"], "as code"),
        (["python3", "-c", "print('{{question}}')"], "as code"),
    ],
)
def test_a_command_that_cannot_be_meant_is_refused(argv, said):
    with pytest.raises(LimpetError, match=said.replace("|", "[|]")):
        command(argv)


def test_options_of_a_script_may_have_placeholders():
    command(["python3", "agent.py", "-c", "{{question}}"])
    command(["grep", "-e", "{{question}}"])


# ---- what its answers depend on -----------------------------------------------------------------


def test_the_content_of_its_program_counts(folder):
    (folder / "inner").mkdir()
    for argv in (["python", "agent.py"], ["./agent.py"], ["python", "-m", "agent"],
                 ["uv", "run", "agent.py", "--x"]):  # fmt: skip
        (folder / "agent.py").write_text("1")
        workflow = command(argv)
        before = dict(workflow.fingerprint)
        assert dict(command(argv).fingerprint) == before
        (folder / "agent.py").write_text("2")
        after = dict(workflow.fingerprint)
        assert {name for name in after if before[name] != after[name]} == {"file agent.py"}


def test_its_arguments_and_variables_count_but_no_secret():
    def parts(argv, **options):
        return dict(command(argv, **options).fingerprint)

    assert parts("cat a") != parts("cat b")
    assert parts("cat", answer="json") != parts("cat")
    assert parts("cat", env={"MODEL": "a"}) != parts("cat", env={"MODEL": "b"})
    assert parts("cat", env={"API_KEY": "a"}) == parts("cat", env={"API_KEY": "b"})
    assert parts(["cat", "--api-key", "sk-1234567"]) == parts(["cat", "--api-key", "sk-7654321"])
    assert parts("/usr/bin/env x") == parts("/opt/bin/env x")


def test_a_version_replaces_its_files(folder):
    (folder / "agent.py").write_text("1")
    workflow = command("python agent.py", version="3")
    before = dict(workflow.fingerprint)
    (folder / "agent.py").write_text("2")
    assert dict(workflow.fingerprint) == before
    assert before != dict(command("python agent.py", version="4").fingerprint)


def test_it_sees_the_entire_row():
    workflow = command(["printf", "{{id}}"])
    row = {"question": "q", "hidden": 1}
    assert workflow.seen(Item("a", "q", None, row)) != workflow.seen(Item("b", "q", None, row))
    assert command("cat").seen(Item("a", "q", None, row)) == {"row": row, "arguments": ["cat"]}
    keys = [command(["cat", "--api-key", key]) for key in ("sk-1234567", "sk-7654321")]
    assert keys[0].seen(Item("a", "q", None, row)) == keys[1].seen(Item("a", "q", None, row))


def test_secrets_among_arguments_and_variables_are_known():
    workflow = command(
        ["agent", "--api-key", "sk-123456789"], env={"SERVICE_TOKEN": "tok-987654321"}
    )
    assert {"sk-123456789", "tok-987654321"} <= set(workflow.secrets)
    assert "sk-123456789" not in repr(workflow)


def test_signals_have_names():
    assert "SIGKILL" in str(failure(shell(f"kill -{int(signal.SIGKILL)} $$")))
