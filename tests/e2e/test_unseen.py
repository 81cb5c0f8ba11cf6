"""The plan names what is not part of an identity and may matter, and nothing else."""

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
    assert f"{named} (declare with depends_on what matters)" in said


@pytest.mark.parametrize(
    "code",
    [
        "API_KEY = 'sk-proj-Ab12Cd34Ef56Gh78Ij90'\ndef answer(question): return API_KEY[:0] + 'x'",
        "SECRET = 'a sentence about secrets'\ndef answer(question): return SECRET",
        "def answer(question): return os.environ.get('TONE', 'x')",
        "def answer(question): return os.environ.get(f'BOT_{question}', 'x')",
        "def answer(question): return Path('rows.jsonl').read_text()",
    ],
)
def test_what_counts_or_is_a_key_is_not_named(tmp_path, code):
    assert "not part of the identity" not in plan_of(tmp_path, code)
