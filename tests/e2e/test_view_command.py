"""`limpet view`, as a process."""

import os
import signal
import subprocess
import sys
from urllib.request import HTTPCookieProcessor, build_opener

import pytest
from click.testing import CliRunner
from e2e import ready_limpet

import limpet
from limpet.cli.commands import cli


def test_it_prints_its_address_serves_the_runs_and_ends_quietly(tmp_path):
    row = {"id": "1", "question": "a", "answer": "A"}
    limpet.evaluate([row], str.upper, run=limpet.Run(tmp_path / "one", durability="flush"))
    command = [sys.executable, "-m", "limpet", "view", "one", "--person", "ann", "--read-only"]
    process = ready_limpet.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    address = process.stdout.readline().strip()
    base, _, token = address.partition("?token=")
    token, _, view = token.partition("#")
    assert view == "/run?run=one"
    opener = build_opener(HTTPCookieProcessor())
    with opener.open(address) as answer:
        assert answer.url == base
        assert b"live.js" in answer.read()
    with opener.open(f"{base}api/run?run=one") as answer:
        about = answer.read()
        assert b'"state":"finished"' in about
        assert b'"can_label":false' in about
    process.send_signal(signal.SIGINT)
    rest, said = process.communicate(timeout=60)
    assert process.returncode == 0
    assert rest == ""
    assert said.startswith("Press Ctrl-C to stop.")
    assert token not in said
    assert "Traceback" not in said


def test_a_directory_that_does_not_exist_is_said(tmp_path):
    result = CliRunner().invoke(cli, ["view", os.fspath(tmp_path / "none")])
    assert isinstance(result.exception, limpet.LimpetError)
    assert "no such directory" in str(result.exception)


def test_a_port_out_of_range_is_said():
    result = CliRunner().invoke(cli, ["view", "--port", "70000"])
    assert result.exit_code == 2
    assert "70000" in result.output


@pytest.mark.parametrize("option", ["--host", "--bind"])
def test_it_is_served_to_no_other_machine(option):
    assert CliRunner().invoke(cli, ["view", option, "0.0.0.0"]).exit_code == 2  # noqa: S104
