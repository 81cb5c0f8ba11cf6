"""`make demo`: a real evaluation, killed half-way by SIGKILL, and resumed. Nothing is lost.

240 questions for a stand-in provider on this machine that takes 40 a second, three evaluators, and
the command a user would type: `limpet run eval.yml`. No network, no key.
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
COMMAND = [sys.executable, "-m", "limpet", "run", "eval.yml"]


def ids_in(column: Path) -> set[str]:
    """Return the ids of the answers that are on disk: it is a file of JSON lines, as any other."""
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

        print(f"{len(questions)} questions for a provider that takes {RATE:.0f} a second:")
        print("$ limpet run eval.yml", flush=True)
        first = await asyncio.create_subprocess_exec(*COMMAND, cwd=FOLDER, env=environment)
        await provider.half_way.wait()
        first.send_signal(signal.SIGKILL)
        await first.wait()
        kept = ids_in(run / "workflow_output.jsonl")
        before = dict(provider.answered)
        print(f"\nkill -9, half-way: {len(kept)} answers are on disk.\n")

        print("$ limpet run eval.yml", flush=True)
        second = await asyncio.create_subprocess_exec(*COMMAND, cwd=FOLDER, env=environment)
        code = await second.wait()
        answers = ids_in(run / "workflow_output.jsonl")
    await runner.cleanup()

    again = [id_ for id_ in kept if provider.answered[questions[id_]] > before[questions[id_]]]
    in_flight = sum(count > 1 for count in provider.answered.values())
    print()
    print(f"{len(kept)} answers were kept, and {len(again)} of them asked for twice.")
    print(f"{in_flight} calls were in flight at the kill, answered and not on disk: asked again.")
    print(f"{provider.refused} refusals and {provider.broken} failures were tried again.")
    if code or again or answers != set(questions):
        raise SystemExit("an answer was lost, or asked for twice")


if __name__ == "__main__":
    asyncio.run(main())
