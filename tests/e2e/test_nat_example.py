"""examples/nat runs as its README says."""

import json
import shutil
import socket
import subprocess
import sys
from pathlib import Path

from e2e.nat_server import wait_until
from e2e.project import run

EXAMPLE = Path(__file__).parents[2] / "examples" / "nat"


def answers(port):
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def test_the_example_runs_and_asks_nothing_twice(tmp_path):
    folder = tmp_path / "nat"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("out*", "__pycache__"))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = subprocess.Popen(
        [sys.executable, "server.py", str(port)], cwd=folder, stdout=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: answers(port))
        done = run(folder, "config.yml", "--endpoint", f"http://127.0.0.1:{port}")
        assert done.returncode == 0, done.stderr
        again = run(folder, "config.yml", "--endpoint", f"http://127.0.0.1:{port}")
    finally:
        server.terminate()
        server.wait(100)
    rows = json.loads((folder / "out/workflow_output.json").read_bytes())
    assert [(row["id"], row["generated_answer"]) for row in rows] == [
        ("001", "5"), ("002", "30"), ("003", "15"),
    ]  # fmt: skip
    assert "3 kept → no calls" in again.stderr
