"""What the documents say is true: every Python block runs, every command exists."""

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from e2e import ready_limpet

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def python_blocks():
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL), 1):
            marks = [pytest.mark.slow] if '"ray"' in block else []  # it starts a Ray
            yield pytest.param(block, id=f"{document.relative_to(ROOT)}#{number}", marks=marks)


@pytest.mark.parametrize("block", list(python_blocks()))
def test_every_python_block_runs(block, tmp_path):
    script = tmp_path / "block.py"
    script.write_text(block, encoding="utf-8")
    done = ready_limpet.run_script(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # A trailing `# →` comment in a block says what the line before it prints.
    promised = re.findall(r"# → (.*)", block)
    assert [line for line in done.stdout.splitlines() if line in promised] == promised


def test_importing_every_public_name_warns_of_nothing():
    code = "import limpet; [getattr(limpet, name) for name in limpet.__all__]"
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_every_block_that_needs_another_library_compiles():
    for document in DOCUMENTS:
        for block in re.findall(
            r"```py\n(.*?)```", document.read_text(encoding="utf-8"), re.DOTALL
        ):
            compile(block, str(document), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_make_target_that_is_named_exists():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for document in DOCUMENTS:
        for target in re.findall(r"(?:`|\$ )make ([a-z-]+)", document.read_text(encoding="utf-8")):
            assert target in targets, f"{document}: make {target}"


def test_every_link_to_a_file_leads_somewhere():
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
            assert (document.parent / target).exists(), f"{document}: {target}"


def test_every_public_name_is_on_a_reference_page():
    import limpet

    pages = (ROOT / "docs/reference").glob("*.md")
    reference = "".join(page.read_text(encoding="utf-8") for page in pages)
    missing = [name for name in limpet.__all__ if f"`{name}" not in reference]
    assert missing == []


def test_every_command_is_on_the_page_of_commands():
    from limpet.cli.commands import cli

    page = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    named = re.findall(r"^\| `limpet ([a-z]+)", page, re.MULTILINE)
    assert sorted(named) == sorted(cli.commands)


def test_the_readme_links_to_every_page_for_users():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for room in ("tutorial", "how-to", "reference", "explanation"):
        for page in (ROOT / "docs" / room).glob("*.md"):
            assert f"](docs/{room}/{page.name})" in text, page.name


def test_the_readme_says_how_to_install_it_from_the_repository():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^\$ pip install \. ", text, re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["build-system"]["build-backend"]
    assert project["project"]["scripts"]["limpet"]


@pytest.mark.parametrize(
    "words",
    ["429", "a bug", "retries", "the prompt", "invalid", "disk is full", "a call hangs", "wrong"],
)
def test_the_page_for_trouble_has_a_heading_for_each(words):
    page = (ROOT / "docs/how-to/what-to-do-when.md").read_text(encoding="utf-8")
    assert any(words in line for line in page.splitlines() if line.startswith("## "))


def test_the_workflow_of_the_gate_is_yaml_and_names_options_that_exist():
    import yaml

    from limpet.cli.commands import cli

    page = (ROOT / "docs/how-to/a-gate-in-ci.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    steps = yaml.safe_load(block)["jobs"]["evaluate"]["steps"]
    commands = [step["run"].split() for step in steps if step.get("run", "").startswith("limpet")]
    assert {words[1] for words in commands} == {"run", "compare"}
    for _, command, *words in commands:
        known = {name for option in cli.commands[command].params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= known
