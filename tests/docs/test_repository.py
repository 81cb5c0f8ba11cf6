"""What the repository holds: small files, and what a stranger looks for before they trust it."""

import ast
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from limpet.version import VERSION

ROOT = Path(__file__).parents[2]
MOST_BYTES = 400_000


def test_no_file_in_git_is_large():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone, or git is not installed")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)  # noqa: S607
    names = listed.stdout.decode().split("\0")[:-1]
    assert "README.md" in names
    files = [ROOT / name for name in names]
    large = {
        str(file.relative_to(ROOT)): file.lstat().st_size
        for file in files
        # One that was removed and not yet committed is no more there.
        if (file.is_symlink() or file.exists()) and file.lstat().st_size > MOST_BYTES
    }
    assert large == {}


FILES = [
    "CHANGELOG.md", "CITATION.cff", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "Dockerfile",
    "LICENSE", "README.md", "SECURITY.md", ".dockerignore", ".pre-commit-config.yaml",
    ".github/pull_request_template.md", ".github/ISSUE_TEMPLATE/bug.yml",
    "docs/project/dependencies.md", "docs/project/release-checklist.md",
]  # fmt: skip
YAML = [
    *ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"
]  # fmt: skip
WORKFLOWS = sorted(ROOT.glob(".github/workflows/*.yml"))


@pytest.mark.parametrize("name", FILES)
def test_what_a_stranger_looks_for_is_there(name):
    assert (ROOT / name).stat().st_size > 0


@pytest.mark.parametrize("path", YAML, ids=lambda path: path.name)
def test_every_yaml_file_of_the_repository_is_valid(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))


def test_the_workflows_and_the_hooks_call_what_make_has():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    called = set()
    for path in WORKFLOWS:
        called |= set(re.findall(r"run: make ([a-z-]+)", path.read_text(encoding="utf-8")))
    assert called == {"test", "docs", "dist"}
    assert called <= targets
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    lint = makefile.partition("\nlint:")[2].partition("\n\n")[0]
    entries = [hook["entry"] for repo in hooks["repos"] for hook in repo["hooks"]]
    used = {entry.split()[0].removeprefix(".venv/bin/") for entry in entries}
    assert used == set(re.findall(r"\$\(BIN\)/([a-z-]+)", lint))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_may_do_only_what_it_says(path):
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert workflow["permissions"] == {}
    allowed = [job["permissions"] for job in workflow["jobs"].values()]
    assert all(one in ({"contents": "read"}, {"id-token": "write"}) for one in allowed)
    jobs = [job for job in workflow["jobs"].values() if "id-token" in job["permissions"]]
    assert all(job["environment"]["name"] == "pypi" for job in jobs)
    assert not any("run" in step for job in jobs for step in job["steps"])  # no code of ours


def test_python_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    named = "".join(project["classifiers"])
    versions = re.findall(r"Python :: (3\.\d+)", named)
    assert project["requires-python"] == f">={versions[0]}"
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    assert workflow["jobs"]["test"]["strategy"]["matrix"]["python"] == versions
    assert f"for version in {' '.join(versions)};" in (ROOT / ".ci/pythons").read_text()


def test_the_version_is_the_same_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == VERSION
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    latest, date = re.search(r"^## (\d\S+) – (\S+)$", changes, re.MULTILINE).groups()
    assert (latest, date) == (VERSION, str(citation["date-released"]))


def test_every_test_that_the_threat_model_names_exists():
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
    named = [re.findall(r"`(tests/[\w/]+\.py)(?:::([\w:]+))?`", row) for row in rows]
    assert len(rows) > 20
    assert all(named)
    for path, name in (one for row in named for one in row):
        tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
        *_, function = name.split("::")
        found = {node.name for node in ast.walk(tree) if hasattr(node, "name")}
        assert not name or function in found, f"{path}::{name}"


def test_what_contributing_shows_is_short():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    blocks = re.findall(
        r"^## (Add an? .*?)\n.*?```python\n(.*?)```", text, re.DOTALL | re.MULTILINE
    )
    assert len(blocks) == 4
    for title, block in blocks:  # `test_documents` runs them
        assert len([line for line in block.splitlines() if line.strip()]) < 30, title
