"""A script sets up a library and then starts a run: that counts, and nothing else of it does."""

import textwrap
from types import SimpleNamespace

import pytest

LIBRARY = """
    class _Settings:
        llm = "none"

    Settings = _Settings()
    MODEL = "none"

    def configure(model, session=""):
        Settings.llm = model
        return Settings

    def ask(question):
        return Settings.llm + MODEL + question
"""
APP = """
    import fakellm

    def answer(question):
        return fakellm.ask(question)
"""
TOP = """
    import argparse, json, logging, os, sys, time, uuid
    import fakellm
    import limpet
    from fakellm import Settings
    from app import answer

    def go(rows="rows.jsonl", journal="answers.jsonl"):
        result = limpet.map(answer, ["a", "b"], journal=journal)
        print(result.outputs)
"""


@pytest.fixture
def run(tmp_path, players):
    """Run a script in a process of its own, which has another seed of hashes than the last one."""

    def run(script, *arguments):
        (tmp_path / "run.py").write_text(script)
        streams = {name: tmp_path / name for name in ("stdout", "stderr")}
        for stream in streams.values():
            stream.write_bytes(b"")
        code = players.play(
            {
                "folder": str(tmp_path),
                "words": ["python", "run.py", *arguments],
                "environment": {
                    "PYTHONPATH": str(tmp_path / "site-packages"),
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
                **{name: str(stream) for name, stream in streams.items()},
            },
            lambda _: None,
        )
        said = streams["stderr"].read_text()
        assert code == 0 or "FunctionChangedError" in said, said
        return SimpleNamespace(returncode=code, stderr=said)

    return run


def project(folder):
    (folder / "site-packages").mkdir()
    (folder / "site-packages" / "fakellm.py").write_text(textwrap.dedent(LIBRARY))
    (folder / "app.py").write_text(textwrap.dedent(APP))
    (folder / "setup_models.py").write_text("import fakellm\nfakellm.configure('m1')\n")
    (folder / "pyproject.toml").write_text("")


SEEN = {
    "a call at the top": "fakellm.configure('m1')\ngo()\n",
    "a call whose result has a name": "llm = fakellm.configure('m1')\ngo()\n",
    "an attribute of what is imported": "Settings.llm = 'm1'\ngo()\n",
    "a value of the library": "fakellm.MODEL = 'm1'\ngo()\n",
    "setattr": "setattr(fakellm, 'MODEL', 'm1')\ngo()\n",
    "a call in main()": "def main():\n    fakellm.configure('m1')\n    go()\nmain()\n",
    "an attribute in main()": "def main():\n    Settings.llm = 'm1'\n    go()\nmain()\n",
    "a local in main()": (
        "def main():\n    model = 'm1'\n    fakellm.configure(model)\n    go()\nmain()\n"
    ),
    "an import and a value in main()": (
        "def main():\n    import fakellm as f\n    f.MODEL = 'm1'\n    go()\nmain()\n"
    ),
    "under if __name__": "if __name__ == '__main__':\n    fakellm.configure('m1')\n    go()\n",
    "in a function that main() calls": (
        "def setup():\n    fakellm.configure('m1')\ndef main():\n    setup()\n    go()\nmain()\n"
    ),
    "before a with": "def main():\n    with fakellm.configure('m1') and open('app.py'):\n"
    "        go()\nmain()\n",
    "a with that patches": (
        "from unittest import mock\ndef main():\n"
        "    with mock.patch.object(fakellm, 'MODEL', 'm1'):\n        go()\nmain()\n"
    ),
    "an object that sets up, and runs": (
        "class Runner:\n    def __init__(self, model):\n        fakellm.configure(model)\n"
        "    def run(self):\n        go()\nRunner('m1').run()\n"
    ),
    "in a function that imports the library": (
        "def setup():\n    from fakellm import Settings as s\n    s.llm = 'm1'\n"
        "def main():\n    setup()\n    go()\nmain()\n"
    ),
    "around a try": "try:\n    fakellm.configure('m1')\n    go()\nfinally:\n    pass\n",
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("does", SEEN.values(), ids=SEEN)
def test_what_a_script_does_to_a_library_before_a_run_counts(tmp_path, run, does):
    project(tmp_path)
    script = textwrap.dedent(TOP) + does
    assert run(script).returncode == 0
    assert run(script).returncode == 0
    assert "m1" in script
    assert "changed" in run(script.replace("'m1'", "'m2'")).stderr


def test_a_module_that_a_script_imports_for_what_it_does_counts(tmp_path, run):
    project(tmp_path)
    script = textwrap.dedent(TOP) + "import setup_models\ngo()\n"
    assert run(script).returncode == 0
    (tmp_path / "setup_models.py").write_text("import fakellm\nfakellm.configure('m2')\n")
    assert "changed" in run(script).stderr


PARSED = """
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model")
    parser.add_argument("--rows", default="rows.jsonl")
    args = parser.parse_args()
    fakellm.configure(args.model)
    go(args.rows)

if __name__ == "__main__":
    main()
"""


@pytest.mark.parametrize(
    ("arguments", "seen"),
    [
        (["--model", "m2"], True),
        (["--model", "m1", "--rows", "others.jsonl"], False),
    ],
)
def test_of_what_the_command_line_says_only_what_the_library_gets_counts(
    tmp_path, run, arguments, seen
):
    project(tmp_path)
    script = textwrap.dedent(TOP) + PARSED
    assert run(script, "--model", "m1").returncode == 0
    assert ("changed" in run(script, *arguments).stderr) is seen


PLAIN = """
def prepare(folder):
    os.makedirs(folder, exist_ok=True)
    logging.basicConfig(level=logging.INFO)
    logging.getLogger("app").setLevel(logging.INFO)

def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", default="rows.jsonl")
    args = parser.parse_args()
    prepare("out")
    print("begun")
    session = uuid.uuid4().hex
    fakellm.configure("m1", session)
    started = time.time()
    go("rows.jsonl")
    go("rows.jsonl", "others.jsonl")
    print(time.time() - started)
    Settings.llm = "after"

if __name__ == "__main__":
    main()
"""


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ('"begun"', '"begins"'),
        ("level=logging.INFO", "level=logging.DEBUG"),
        ("setLevel(logging.INFO)", "setLevel(logging.DEBUG)"),
        ('prepare("out")', 'prepare("results")'),
        ('default="rows.jsonl"', 'default="other.jsonl"'),
        ('go("rows.jsonl")', 'go("other.jsonl")'),
        ("    go(", "    # A comment.\n\n    go("),
        ('"after"', '"later"'),
        ('    go("rows.jsonl", "others.jsonl")\n', ""),
        ('parser.add_argument("--rows"', 'parser.add_argument("-r", "--rows"'),
        ("print(time.time() - started)", "print(time.time() - started, 's')"),
    ],
)
def test_what_else_a_script_does_does_not_count(tmp_path, run, old, new):
    project(tmp_path)
    script = textwrap.dedent(TOP) + PLAIN
    assert old in script
    assert run(script).returncode == 0
    done = run(script.replace(old, new) if old else script)
    assert done.returncode == 0, done.stderr
