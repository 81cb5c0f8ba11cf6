"""The pages are walked, command by command, and say what really comes out.

Each tutorial in an empty folder, and each guide in a project that has what the page speaks of.
"""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from doc_blocks import GUIDES, ROOT, blocks, commands
from e2e import ready_limpet

PAGE = ROOT / "docs" / "tutorial" / "first-evaluation.md"
JUDGE_PAGE = PAGE.with_name("your-first-judge.md")
SLEEP = "sleep 4;"
HALF_DONE = "until [ $(cat runs/*/short_output.jsonl | wc -l) -ge 9 ]; do sleep 0.05; done 2>&-;"
ONLY_LIMPET = re.compile(r"limpet [^&;|$]*( && (limpet [^&;|$]*|cd \w+))*")


NOTHING_DONE = (2, 70, 127)
"""Wrong words, a defect, no such command."""


def as_pattern(line):
    """A line as it may come out another time: other numbers, ids, moments and widths."""
    pattern = re.sub(r"(\\ )+", r"\\s+", re.escape(line.strip()))
    pattern = re.sub(r"q\d+(,\\s\+q\d+)+", r"q\\d+(,\\s+q\\d+)*", pattern)
    pattern = re.sub(r"\d+(?:\\\.\d+)?(?!\+)", r"\\d+(?:\\.\\d+)?", pattern)  # 5.0 s, or 13 s
    pattern = pattern.replace(r"\s+MB\)", r"\s+[kM]B\)")
    if line.startswith("latency: "):  # by chance, either may be the faster
        pattern = re.sub(r"\\[-+](?=\\d)", "[-+]?", pattern)
    # The bot fails now and then, and is asked again.
    pattern = pattern.replace(r":\s+completed\s+", r":\s+completed(\s+with\s+retries)?\s+")
    return pattern.replace(r"\s+attempt\s+", r"\s+attempts?\s+")


def test_an_item_that_was_asked_again_fits_the_page():
    shown = as_pattern("q40: completed · 1 attempt · 0.3 s · 2026-11-15 09:11:25")
    assert re.fullmatch(shown, "q7: completed · 1 attempt · 0.4 s · 2026-11-16 02:17:21")
    again = "q12: completed with retries · 2 attempts · 0.6 s · 2026-11-16 02:17:21"
    assert re.fullmatch(shown, again)


def hasten(app):
    """Let the bot answer sooner and never fail: by chance, a table would have one column more."""
    text = app.read_text(encoding="utf-8").replace("uniform(0.2, 1.0)", "uniform(0.1, 0.3)")
    app.write_text(text.replace("random() < 0.05", "random() < 0"), encoding="utf-8")


def walk(step, folder, script=None):
    """Run a command of a page, and check that each line it promises comes out."""
    command, said = step
    settings = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    if script is None and ONLY_LIMPET.fullmatch(command):  # no shell is needed, nor its time
        parts = [one for one in command.split(" && ") if one[:2] != "cd"]
        words = [shlex.split(one, comments=True)[1:] for one in parts]
        done = [ready_limpet.run(one, cwd=folder, env=settings) for one in words]
    else:
        done = [subprocess.run(
            ["/bin/bash", "-c", script or command],
            cwd=folder, env=settings, capture_output=True, text=True, timeout=250, check=False,
        )]  # fmt: skip
    out = "".join(one.stdout + one.stderr for one in done)
    assert done[-1].returncode not in NOTHING_DONE, f"{command}\nsays:\n{out}"
    for line in said.splitlines():
        found = re.search(rf"^\s*{as_pattern(line)}\s*$", out, re.MULTILINE)
        assert found, f"{command}\npromises: {line}\nand says:\n{out}"


def steps_of(page):
    return [step for block in blocks(page, "console") for step in commands(block)]


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("first-evaluation", marks=pytest.mark.slow),  # e2e/test_init_and_demo does
        "first-crash",
        pytest.param("first-comparison", marks=pytest.mark.slow),
        pytest.param("first-gate", marks=pytest.mark.slow),
    ],
)
def test_a_tutorial_says_what_really_comes_out(name, tmp_path):
    (make, said), *others = steps_of(PAGE.with_stem(name))
    assert len(others) >= 3
    walk((make, said), tmp_path)
    folder = tmp_path / re.search(r"init (\w+)", make)[1]
    hasten(folder / "app.py")
    for command, said in others:
        killed = f"{command.replace(SLEEP, HALF_DONE)}\nwait 2>/dev/null"
        walk((command, said), folder, killed if SLEEP in command else None)


@pytest.mark.slow  # e2e/test_init_and_demo walks its first steps
def test_the_page_of_the_judge_says_what_really_comes_out(tmp_path):
    make, start, *others = steps_of(JUDGE_PAGE)
    assert len(others) == 7
    walk(make, tmp_path)
    folder = tmp_path / "demo"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for path in (folder / "eval.yml", folder / "server.py"):
        path.write_text(path.read_text(encoding="utf-8").replace("8642", port), encoding="utf-8")
    assert start[0] == "python server.py &"
    with subprocess.Popen(
        [sys.executable, "server.py"], cwd=folder, stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout.readline() == start[1].replace("8642", port)
            for step in others:
                walk(step, folder)
        finally:
            server.terminate()


def first_project(folder, *runs, edit=("", "")):
    """Make the example of `limpet init first` with these runs: the last one of an edited bot."""
    walk((f"limpet init {folder.name}", ""), folder.parent)
    app = folder / "app.py"
    text = app.read_text(encoding="utf-8").replace("uniform(0.2, 1.0)", "uniform(0, 0.01)")
    app.write_text(text.replace("random() < 0.05", "random() < 0"), encoding="utf-8")
    for name in runs:
        if name == runs[-1]:
            app.write_text(app.read_text(encoding="utf-8").replace(*edit), encoding="utf-8")
        walk((f"limpet run --set name={name}", ""), folder)


def two_versions(*runs):
    return lambda folder: first_project(folder, *runs, edit=("product < 500", "product < 300"))


def own_bot(folder):
    """The files that the page speaks of: its eval.yml, 60 rows as CSV, a bot."""
    first_project(folder)
    rows = [json.loads(line) for line in (folder / "questions.jsonl").read_text().splitlines()]
    lines = ["question,answer", *(f"{row['question']},{row['answer']}" for row in rows)]
    (folder / "questions.csv").write_text("\n".join(lines), encoding="utf-8")
    write_eval_yml(folder, "evaluate")


def variants(folder):
    first_project(folder)
    page = PAGE.parents[1] / "how-to/compare-variants.md"
    code = blocks(page, "python")[0].text
    code = code.replace("call_my_model(model, instructions, question)", "question")
    (folder / "app.py").write_text(code, encoding="utf-8")
    for name in ("short.txt", "long.txt"):
        (folder / name).write_text("Answer.", encoding="utf-8")
    write_eval_yml(folder, "compare-variants")


def write_eval_yml(folder, page):
    text = blocks(PAGE.parents[1] / f"how-to/{page}.md", "yaml")[0].text
    (folder / "eval.yml").write_text(text, encoding="utf-8")


PROJECTS = {
    "README": lambda folder: None,  # it makes its own
    "a-gate-in-ci": two_versions("base", "new"),
    "compare-variants": variants,
    "evaluate": own_bot,
    "look-at-a-run": two_versions("support-bot-v1", "support-bot-v2", "base", "new"),
    "what-to-do-when": lambda folder: first_project(folder, "first"),
    "what-will-it-cost": lambda folder: None,  # it makes its own
}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.stem, marks=() if page.stem == "README" else pytest.mark.slow)
        for page in GUIDES
        if page.parent.name != "tutorial" and blocks(page, "console")
    ],
)
def test_a_guide_says_what_really_comes_out(page, tmp_path, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    folder = tmp_path / "support-bot"
    PROJECTS[page.stem](folder)
    for step in steps_of(page):
        made = re.match(r"limpet init (\w+)", step[0])
        walk(step, tmp_path if made else folder)
        folder = tmp_path / made[1] if made else folder


def test_its_eval_yml_is_that_of_init():
    text = PAGE.read_text(encoding="utf-8")
    shown = re.search(r"```yaml\n(.*?)```", text, re.DOTALL)[1].splitlines()
    made = (ROOT / "src/limpet/cli/first/eval.yml").read_text(encoding="utf-8")
    lines = [line.split("#")[0].rstrip() for line in made.splitlines()]
    lines = [re.sub(r": +", ": ", line) for line in lines if line and line != "name: first"]
    assert shown == lines


def test_the_judge_s_eval_yml_is_that_of_init():
    shown = re.search(r"```yaml\n(.*?)```", JUDGE_PAGE.read_text(encoding="utf-8"), re.DOTALL)[1]
    made = (ROOT / "src/limpet/cli/first_judge/eval.yml").read_text(encoding="utf-8")
    assert {"name": "first", **yaml.safe_load(shown)} == yaml.safe_load(made)
