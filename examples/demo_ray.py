"""`make demo-ray`: an evaluation on a local Ray. Its actor is killed, then Limpet; nothing is lost.

It runs the command that you would type, `limpet run --engine ray`. No network, no key.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ITEMS = 120
CODE = """
import asyncio


async def answer(question):
    await asyncio.sleep(0.5)
    return question.upper()
"""
CONFIG = """
dataset: questions.jsonl
workflow: app:answer
evaluators: {correct: exact_match}
run: runs/demo
pace: 10
"""
COMMAND = [sys.executable, "-m", "limpet", "run", "--engine", "ray"]


def write_project(folder: Path) -> None:
    rows = [{"id": f"q{n}", "question": f"word {n}", "answer": f"WORD {n}"} for n in range(ITEMS)]
    (folder / "questions.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    (folder / "app.py").write_text(CODE, encoding="utf-8")
    (folder / "eval.yml").write_text(CONFIG, encoding="utf-8")


def answered(folder: Path) -> list[str]:
    """Return the ids of the answers on disk."""
    column = folder / "runs/demo/workflow_output.jsonl"
    text = column.read_text(encoding="utf-8") if column.exists() else ""
    return [json.loads(line)["id"] for line in text.split("\n")[:-1]]


def wait_for(folder: Path, number: int, process: "subprocess.Popen[bytes]") -> None:
    while len(answered(folder)) < number and process.poll() is None:
        time.sleep(0.05)


def actors_of(mark: str) -> list[int]:
    """Return the actors of this demo's Ray, by their names and their environment."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            is_ours = f"LIMPET_DEMO={mark}".encode() in (entry / "environ").read_bytes()
            is_actor = (entry / "cmdline").read_bytes().startswith(b"ray::Foreman")
        except OSError:  # it ended meanwhile, or is another user's
            continue
        if is_ours and is_actor:
            found.append(int(entry.name))
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_project(folder)
        environment = {**os.environ, "LIMPET_DEMO": name}
        environment.pop("RAY_ADDRESS", None)
        print("$ limpet run --engine ray", flush=True)
        first = subprocess.Popen(COMMAND, cwd=folder, env=environment)  # noqa: S603 - ourselves
        wait_for(folder, ITEMS // 4, first)
        for pid in actors_of(name):
            os.kill(pid, signal.SIGKILL)
        print("\nKilled the Ray actor with kill -9. The run goes on.", flush=True)
        wait_for(folder, ITEMS // 2, first)
        first.kill()
        first.wait()
        kept = answered(folder)
        print(
            f"\nKilled Limpet with kill -9: {len(kept)} answers are on disk. Again:\n", flush=True
        )
        print("$ limpet run --engine ray", flush=True)
        code = subprocess.run(COMMAND, cwd=folder, env=environment, check=False).returncode  # noqa: S603
        ids = answered(folder)
        lost, twice = ITEMS - len(set(ids)), len(ids) - len(set(ids))
        print(f"\n{len(ids)} answers: {lost} lost, {twice} recorded twice, exit code {code}.")
        sys.exit(code or lost or twice)


if __name__ == "__main__":
    main()
