"""Does each script of benchmarks/peers still run, with its peer at the named version?"""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "benchmarks" / "peers"
PEERS = sorted(path.stem.removeprefix("with_") for path in SCRIPTS.glob("with_*.py"))
ITEMS = 5
MOST_LINES = 120


@pytest.mark.slow
@pytest.mark.timeout(3000)  # the first time, an environment is made
@pytest.mark.parametrize("peer", PEERS)
def test_each_peer_is_measured(peer, tmp_path):
    rows = tmp_path / "rows.jsonl"
    # The others prove that their scripts run, in both kinds, and ours that each table is measured.
    tables = {"weight", "kill", "edits", "limit"} if peer == "limpet" else {"cost", "limit"}
    words = ["--peers", peer, "--only", ",".join(tables), "--items", str(ITEMS)]
    command = [sys.executable, str(SCRIPTS / "run.py"), *words, "--rows", str(rows)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    measured = [json.loads(line) for line in rows.read_text(encoding="utf-8").splitlines()]
    if not measured:
        pytest.skip(done.stderr[-500:])  # it says that the peer cannot be installed, and why
    assert {row["table"] for row in measured} == tables
    for row in measured:
        assert "cut" not in row, row
        for found in row["found"] if row["table"] in {"cost", "limit"} else ():
            assert (found["code"], found["below_1"]) == (0, 0)
            assert found["calls"] >= ITEMS
            # Without its server, MLflow loses some: "Failed to log trace and assessments".
            lossy = (peer, row["setting"]) == ("mlflow", "default")
            assert found["scored"] == ITEMS or (lossy and found["scored"])
        if row["table"] == "edits":
            assert [(one["bot"], one["judge"]) for one in row["found"]] == [
                (0, 0), (1, 1), (0, ITEMS), (ITEMS, 0), (0, 0),
            ]  # fmt: skip


def test_the_page_names_each_version_that_is_measured():
    pins = re.findall(r'"([\w\[\],-]+[=@]=?[\d.]+)"', (SCRIPTS / "peer_list.py").read_text())
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8")
    tables = page.partition("<!-- peers: begin -->")[2]
    assert len(pins) > len(PEERS)
    assert [pin for pin in pins if pin not in tables] == []


@pytest.mark.parametrize("peer", PEERS)
def test_a_script_is_short_enough_to_be_checked(peer):
    lines = (SCRIPTS / f"with_{peer}.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) < MOST_LINES
