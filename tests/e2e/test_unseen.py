"""The plan names what is not part of an identity and may matter, and nothing else."""

import subprocess
import sys

import pytest
from e2e.project import make, run

HEAD = "import os\nfrom pathlib import Path\n\n\n"


def plan_of(folder, code):
    make(folder, rows=2)
    (folder / "app.py").write_text(HEAD + code + "\n", encoding="utf-8")
    return run(folder, "eval.yml", "--plan").stdout


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("PASSWORD = 'swordfish'\ndef answer(question): return PASSWORD", "PASSWORD"),
        ("def answer(question): return os.environ.get(question.upper(), 'x')",
         "a variable with a computed name"),
        ("def answer(question): return str(Path('a.txt').exists())", "exists, stat and the like"),
        ("def answer(question): return str(os.path.getmtime('.'))", "exists, stat and the like"),
    ],
)  # fmt: skip
def test_it_is_named_once_with_the_remedy(tmp_path, code, named):
    said = plan_of(tmp_path, code)
    assert said.count("not part of the identity") == 1
    assert f"{named} (declare what matters with depends_on)" in said


@pytest.mark.parametrize(
    "code",
    [
        "API_KEY = 'sk-proj-Ab12Cd34Ef56Gh78Ij90'\ndef answer(question): return API_KEY[:0] + 'x'",
        "SECRET = 'a sentence about secrets'\ndef answer(question): return SECRET",
        "SECRET = '请礼貌地回答'\ndef answer(question): return SECRET",
        "P = {'password': {'system': 'Reset it politely'}}\ndef answer(question): return str(P)",
        "def answer(question): return os.environ.get('TONE', 'x')",
        "def answer(question): return os.environ.get(f'BOT_{question}', 'x')",
        "def answer(question): return Path('rows.jsonl').read_text()",
    ],
)
def test_what_counts_or_is_a_key_is_not_named(tmp_path, code):
    assert "not part of the identity" not in plan_of(tmp_path, code)


UNSEEN = "def answer(question): return os.environ.get(question.upper(), 'x')"


def test_it_is_said_where_everything_is_kept(tmp_path):
    plan_of(tmp_path, UNSEEN)
    for _ in range(2):
        assert "a variable with a computed name" in run(tmp_path).stderr


def test_a_map_says_it_too(tmp_path):
    script = HEAD + UNSEEN + "\nimport limpet\nlimpet.map(answer, ['a'], journal='j.jsonl')\n"
    (tmp_path / "script.py").write_text(script, encoding="utf-8")
    for _ in range(2):
        command = [sys.executable, "script.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert "not part of the identity: a variable with a computed name" in done.stderr
