"""What the documents say is true: every Python block runs, every command exists."""

import ast
import itertools
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from doc_blocks import GUIDES, blocks
from e2e import ready_limpet

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


def python_blocks():
    for document in DOCUMENTS:
        for number, block in enumerate(blocks(document, "python"), 1):
            marks = [pytest.mark.slow] if '"ray"' in block.text else []  # it starts a Ray
            name = f"{document.relative_to(ROOT)}#{number}"
            yield pytest.param(block.text, id=name, marks=marks)


@pytest.mark.parametrize("block", list(python_blocks()))
def test_every_python_block_runs(block, tmp_path):
    script = tmp_path / "block.py"
    script.write_text(block, encoding="utf-8")
    done = ready_limpet.run_script(script, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # A trailing `# →` comment in a block says what the line before it prints.
    promised = re.findall(r"# → (.*)", block)
    assert [line for line in done.stdout.splitlines() if line in promised] == promised


def test_every_block_of_the_guides_is_run_or_says_why_not():
    run = {"python", "console", "yaml"}  # here, in test_tutorial and in test_config_loading
    shown = {"text", "json"}  # what something looks like
    found = [block for page in GUIDES for block in blocks(page)]
    assert len(found) > 80
    neither = [str(one) for one in found if one.kind not in run | shown and one.why_not is None]
    assert neither == []
    # A reason names what is missing; a test that it names is there.
    reasons = {str(one): one.why_not for one in found if one.why_not}
    assert [at for at, why in reasons.items() if len(why) < 20] == []
    tests = {path.stem for path in (ROOT / "tests").rglob("test_*.py")}
    named = {at: set(re.findall(r"\btest_\w+", why)) for at, why in reasons.items()}
    assert {at: names - tests for at, names in named.items() if names - tests} == {}


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


def test_the_site_leads_to_every_page():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    pages = {str(path.relative_to(ROOT / "docs")) for path in (ROOT / "docs").rglob("*.md")}
    assert sorted(leaves(config["nav"])) == sorted({*pages, "changelog.md", "python.md"})


def leaves(entries):
    for entry in entries:
        for below in [entry] if isinstance(entry, str) else entry.values():
            yield from [below] if isinstance(below, str) else leaves(below)


def test_one_path_leads_through_the_tutorials():
    config = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    (path,) = [part["Tutorials"] for part in config["nav"] if "Tutorials" in part]
    assert [Path(page).stem.removeprefix("your-") for page in path] == [
        "first-evaluation", "first-crash", "first-judge", "first-comparison", "first-gate",
    ]  # fmt: skip
    for page, after in itertools.pairwise(path):
        text = (ROOT / "docs" / page).read_text(encoding="utf-8")
        assert re.search(rf"^## Next: \[.*\]\({Path(after).name}\)$", text, re.MULTILINE), page


def test_the_generated_pages_say_what_the_code_says():
    code = (ROOT / "docs/generate.py").read_text(encoding="utf-8")
    script = {"__name__": "generate", "__file__": str(ROOT / "docs/generate.py")}
    exec(compile(code, "docs/generate.py", "exec"), script)  # noqa: S102
    pages = script["pages"]()
    assert len(pages) >= 5
    stale = [
        name
        for name, text in pages.items()
        if (ROOT / "docs" / name).read_text(encoding="utf-8") != text
    ]
    assert stale == [], "run: python docs/generate.py"


def test_every_error_is_on_its_page_with_what_to_do():
    from limpet import errors

    page = (ROOT / "docs/reference/errors.md").read_text(encoding="utf-8")
    names = [
        name for name, one in vars(errors).items() if isinstance(one, type) and "Error" in name
    ]
    assert len(names) > 20
    for name in names:
        assert re.search(rf"^## {name}\n\n.+?\n\nWhat to do: \w.+\.$", page, re.M | re.S), name


def test_the_page_of_commands_has_every_exit_code():
    from limpet.cli import error_exit

    page = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8")
    table = page.partition("## Exit codes")[2]
    codes = {
        int(code) for row in re.findall(r"^\| ([\d, ]+) \|", table, re.M) for code in row.split(",")
    }
    own = ("DONE", "FAILED", "USAGE", "STOPPED", "INCONCLUSIVE", "BUG")
    signals = (signal.SIGHUP, signal.SIGINT, signal.SIGPIPE, signal.SIGTERM)
    assert codes == {*(getattr(error_exit, name) for name in own), *(128 + one for one in signals)}


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
    from limpet.cli.commands import cli

    page = (ROOT / "docs/how-to/a-gate-in-ci.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    steps = yaml.safe_load(block)["jobs"]["evaluate"]["steps"]
    commands = [step["run"].split() for step in steps if step.get("run", "").startswith("limpet")]
    assert {words[1] for words in commands} == {"run", "compare"}
    for _, command, *words in commands:
        known = {name for option in cli.commands[command].params for name in option.opts}
        assert {word for word in words if word.startswith("--")} <= known
