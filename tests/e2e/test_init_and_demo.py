"""What a newcomer tries first: `limpet init`, and `make demo`."""

import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from e2e import ready_limpet
from e2e.project import COMMAND, run
from jsonschema import ValidationError
from jsonschema.validators import validator_for

ROOT = Path(__file__).parents[2]
FILES = ["eval.yml", "questions.jsonl", "app.py", "README.md"]


def test_init_makes_a_small_example_that_runs_offline(tmp_path):
    made = run(tmp_path, "first", command="init")
    assert made.returncode == 0
    assert made.stdout.splitlines() == [f"first/{name}" for name in FILES]
    assert made.stderr == "next: cd first && limpet run eval.yml\n"
    folder = tmp_path / "first"
    assert sorted(path.name for path in folder.iterdir()) == sorted(FILES)
    assert len((folder / "README.md").read_text(encoding="utf-8").splitlines()) == 5
    done = run(folder, "--limit", "6", "--set", "pace=6")
    assert done.returncode == 0
    assert re.search(r"^correct +6/6 +1.000 \(0.61–1.00\)$", done.stdout, re.M)


def test_init_with_a_judge_makes_an_example_whose_next_steps_work(tmp_path):
    made = run(tmp_path, "--judge", "demo", command="init")
    assert made.returncode == 0
    files = ["eval.yml", "questions.jsonl", "prompts/answer.txt", "prompts/polite.txt"]
    assert made.stdout.splitlines() == [
        f"demo/{name}" for name in [*files, "server.py", "README.md"]
    ]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    for name in ("eval.yml", "server.py"):
        path = tmp_path / "demo" / name
        path.write_text(path.read_text(encoding="utf-8").replace("8642", port), encoding="utf-8")

    steps = [line.strip() for line in made.stderr.removeprefix("next: ").splitlines()]
    go, start, then = steps
    assert start.startswith("python server.py &")
    ready = f"until (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>&-; do sleep 0.05; done"
    script = f"{go}\n{start}\n{ready}\n{then}\ncode=$?\nkill $!\nwait\nexit $code"
    done = subprocess.run(
        ["/bin/bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=250,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.search(r"^correct +20/20 +0.850 \(0.64–0.95\) ", done.stdout, re.M)
    assert re.search(r"^polite +20/20 +0.65", done.stdout, re.M)


@pytest.mark.parametrize("name", ["anthropic", "bedrock", "gemini", "ollama", "openai"])
def test_init_with_a_provider_makes_an_example_for_its_models(name, tmp_path):
    made = run(tmp_path, "--judge", "--provider", name, "demo", command="init")
    assert made.returncode == 0
    assert not (tmp_path / "demo/server.py").exists()
    content = yaml.safe_load((tmp_path / "demo/eval.yml").read_text(encoding="utf-8"))
    variable = re.search(r"export (\w+)=", made.stderr)
    key = {} if variable is None else {variable[1]: "any"}
    assert all(name in model for model in content["models"].values())
    planned = run(tmp_path / "demo", "--plan", env={**os.environ, **key})
    assert planned.returncode == 0, planned.stderr
    assert planned.stdout.startswith("20 items × 1 trial: 0 kept, 20 new")
    assert "server.py" not in (tmp_path / "demo/README.md").read_text(encoding="utf-8")


def test_init_with_a_judge_never_writes_over_what_is_there(tmp_path):
    (tmp_path / "server.py").write_text("mine = 1\n", encoding="utf-8")
    done = run(tmp_path, "--judge", command="init")
    assert done.returncode == 2
    assert done.stderr.endswith("hint: choose another directory: limpet init --judge first\n")
    assert [path.name for path in tmp_path.iterdir()] == ["server.py"]


def test_init_never_writes_over_what_is_there(tmp_path):
    (tmp_path / "app.py").write_text("mine = 1\n", encoding="utf-8")
    done = run(tmp_path, command="init")
    assert done.returncode == 2
    said = "error: app.py already exists; nothing was written\n\n"
    assert done.stderr == said + "hint: choose another directory: limpet init first\n"
    assert [path.name for path in tmp_path.iterdir()] == ["app.py"]
    assert (tmp_path / "app.py").read_text(encoding="utf-8") == "mine = 1\n"


def test_the_schema_fits_the_example_of_init_and_refuses_a_wrong_key(tmp_path):
    schema = json.loads(run(tmp_path, command="schema").stdout)
    kind = validator_for(schema)
    kind.check_schema(schema)
    validator = kind(schema)
    for name in ("first_judge", "first"):
        text = (ROOT / f"src/limpet/cli/{name}/eval.yml").read_text(encoding="utf-8")
        example = yaml.safe_load(text)
        validator.validate(example)
    with pytest.raises(ValidationError, match="workflw"):
        validator.validate({**example, "workflw": 1})


@pytest.mark.slow  # docs/test_tutorial kills a run and goes on
def test_the_demo_is_killed_resumes_and_asks_for_nothing_twice():
    done = ready_limpet.run_python(
        [sys.executable, str(ROOT / "examples" / "demo.py")], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    kept = int(re.search(r"kill -9: (\d+) answers are on disk", done.stdout)[1])
    assert kept >= 100
    assert f"{kept} answers were kept; 0 of them were asked for again." in done.stdout
    assert re.search(r"^correct +240/240 +1.0000 \(0.984–1.000\)", done.stdout, re.M)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "$(BIN)/python examples/demo.py" in makefile


def test_python_m_limpet_is_the_command():
    done = subprocess.run(
        [*COMMAND, "--version"], capture_output=True, text=True, timeout=250, check=True
    )
    assert re.fullmatch(r"limpet, version \d[\w.]*\n", done.stdout)


def test_the_demo_on_ray_installs_ray_and_none_of_the_test_tools(tmp_path):
    words = ["make", "-n", "demo-ray", f"VENV={tmp_path}", f"PYTHON={sys.executable}"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "-e '.[demo,ray]'" in done.stdout
    assert "[dev]" not in done.stdout
