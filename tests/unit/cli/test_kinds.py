"""A kind of configuration that the command line does not know."""

import json
import subprocess
import sys

import pytest

KIND = """
import json, sys
from pathlib import Path
from types import SimpleNamespace

import click

from limpet.config.configuration import Configuration
from limpet.integrations import kinds
from limpet.run.api import Arguments


class Third(Configuration):
    shares_run = True

    def __init__(self, file, given):
        self.path, self.name, self.run = file.absolute(), "third", Path("third_run").absolute()
        self.remarks = ["it asks a lot"]
        self._loudly = given["loudly"]

    def prepare(self):
        answer = str.upper if self._loudly else str.lower
        return Arguments([{"id": "a", "input": "Q"}], lambda input: answer(input), run=self.run)

    def begin(self, prepared, say):
        say("it begins")

    def finish(self, result, say, *, stopped):
        say(f"it ends with {result.items[0].output.value}")
        return True

    def next_steps(self, file, run):
        return [f"third look {run}"]


def refuse(given):
    if given.get("loudly"):
        raise click.UsageError("--loudly is for a third thing")


kinds.KINDS += (
    SimpleNamespace(
        WHAT="a third thing", TOOL="third eval", FORM="third", RECORDED=["loudly"],
        options=lambda command: [click.Option(["--loudly"], is_flag=True, help="Shout.")],
        refuse=refuse, owns=lambda tree: "third" in tree.data, load=Third,
        exported=lambda reader: ["all.json"],
        export=lambda reader, folder: (folder.mkdir(), (folder / "all.json").write_text("[]")),
    ),
)  # fmt: skip

from limpet.cli.main import main

main()
"""


@pytest.fixture
def limpet(tmp_path):
    (tmp_path / "kind.py").write_text(KIND, encoding="utf-8")
    (tmp_path / "third.yml").write_text("third: {}\n", encoding="utf-8")
    (tmp_path / "eval.yml").write_text("dataset: x.json\nworkflow: a:b\n", encoding="utf-8")

    def run(*arguments):
        command = [sys.executable, "kind.py", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    return run


def test_a_third_kind_of_configuration_is_run_with_its_flags_and_exported(limpet, tmp_path):
    done = limpet("run", "third.yml", "--loudly")
    assert done.returncode == 0, done.stderr
    said = [
        "it asks a lot",
        "third · third_run",
        "it begins",
        "it ends with Q",
        "third look third_run",
    ]
    places = [done.stderr.index(line) for line in said]
    assert places == sorted(places)
    about = json.loads((tmp_path / "third_run/run.json").read_text(encoding="utf-8"))
    assert about["made_by"]["loudly"] is True
    assert limpet("export", "third_run", "--to", "third", "--output", "out").returncode == 0
    assert (tmp_path / "out/all.json").exists()


def test_its_flags_have_a_heading_and_are_refused_for_another_file(limpet):
    said = limpet("run", "--help").stdout
    assert "an eval.yml or a NeMo Agent Toolkit configuration or a third thing" in " ".join(
        said.split()
    )
    assert "--loudly" in said.partition("Options for a third thing:")[2]
    done = limpet("run", "--loudly")
    assert done.returncode == 2
    assert "--loudly is for a third thing" in done.stderr


def test_its_flags_are_not_those_of_a_file_of_the_toolkit(limpet, tmp_path):
    (tmp_path / "rows.json").write_text('[{"id": "a", "question": "Q"}]', encoding="utf-8")
    (tmp_path / "config.yml").write_text(
        "eval: {general: {dataset: {_type: json, file_path: rows.json}}}\n", encoding="utf-8"
    )
    done = limpet("run", "config.yml", "--endpoint", "http://localhost:1", "--plan")
    assert done.returncode == 0, done.stderr
    done = limpet("run", "config.yml", "--loudly")
    assert "--loudly is for a third thing" in done.stderr
