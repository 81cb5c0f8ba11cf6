"""`make demo`: run an evaluation, kill it halfway with SIGKILL, and resume it. Nothing is lost.

It runs the command that you would type, `limpet run eval.yml`, with 240 questions, three evaluators
and a local stand-in for a provider that accepts 40 calls a second. No network, no key.
"""

import asyncio
import json
import os
import signal
import sys
import tempfile
from pathlib import Path

from provider import RATE, Provider

FOLDER = Path(__file__).parent / "demo"
LIMPET = [sys.executable, "-m", "limpet"]
COMMAND = [*LIMPET, "run", "eval.yml"]


def ids_in(column: Path) -> set[str]:
    """Return the ids of the answers on disk; a column is a plain file of JSON lines."""
    lines = column.read_text(encoding="utf-8").split("\n")
    return {json.loads(line)["id"] for line in lines[:-1]}


async def main() -> None:
    rows = (FOLDER / "questions.jsonl").read_text(encoding="utf-8").splitlines()
    questions = {row["id"]: row["question"] for row in map(json.loads, rows)}
    provider = Provider(half=len(questions) // 2)
    runner, url = await provider.start()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        environment = {**os.environ, "PROVIDER_URL": url, "DEMO_RUN": str(run)}

        print(
            f"{len(questions)} questions for a provider that accepts {RATE:.0f} calls a second.\n"
        )
        print("$ limpet run eval.yml", flush=True)
        first = await asyncio.create_subprocess_exec(*COMMAND, cwd=FOLDER, env=environment)
        await provider.half_way.wait()
        first.send_signal(signal.SIGKILL)
        await first.wait()
        kept = ids_in(run / "workflow_output.jsonl")
        before = dict(provider.answered)
        print(f"\nKilled halfway with kill -9: {len(kept)} answers are on disk.")
        print("Run the same command again:\n")

        print("$ limpet run eval.yml", flush=True)
        second = await asyncio.create_subprocess_exec(*COMMAND, cwd=FOLDER, env=environment)
        code = await second.wait()
        answers = ids_in(run / "workflow_output.jsonl")

        print(f"\n$ limpet show {run} --limit 3", flush=True)
        show = await asyncio.create_subprocess_exec(*LIMPET, "show", str(run), "--limit", "3")
        await show.wait()
    await runner.cleanup()

    again = [id_ for id_ in kept if provider.answered[questions[id_]] > before[questions[id_]]]
    in_flight = sum(count > 1 for count in provider.answered.values())
    print()
    print(f"{len(kept)} answers were kept; {len(again)} of them were asked for again.")
    print(f"{in_flight} calls in flight at the kill were not on disk and were made again.")
    print(f"{provider.refused} refused and {provider.broken} failed calls were retried.")
    if code or again or answers != set(questions):
        raise SystemExit("error: an answer was lost or asked for again")
    print("\nNext: docs/tutorial/first-evaluation.md")


if __name__ == "__main__":
    asyncio.run(main())
