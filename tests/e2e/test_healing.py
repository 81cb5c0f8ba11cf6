"""A finished run with a flipped bit, by the commands that people use."""

import csv
import io
import json

from e2e.project import calls, make, run


def outputs(folder):
    exported = run(folder, "--to", "csv", command="export").stdout
    return [row["output"] for row in csv.DictReader(io.StringIO(exported))]


def test_what_verify_finds_the_next_run_makes_good(tmp_path):
    folder = make(tmp_path, rows=10)
    assert run(folder).returncode == 0
    column = folder / "runs" / "trial" / "workflow_output.jsonl"
    raw = bytearray(column.read_bytes())
    raw[raw.index(b"Repeat 5")] ^= 0x04  # in one line: between two, it would cost both
    column.write_bytes(raw)

    found = run(folder, command="verify")
    assert found.returncode == 1
    assert "1 bad line" in found.stdout
    assert "run it again" in found.stderr

    again = run(folder, "--json")
    assert again.returncode == 0
    ended = json.loads(again.stdout.splitlines()[-1])
    assert ended["summary"]["workflow"]["completed"] == 10
    assert len(calls(folder)) == 11
    assert outputs(folder) == [str(number) for number in range(10)]
    assert run(folder, command="verify").returncode == 0
    assert run(folder).returncode == 0
    assert len(calls(folder)) == 11
