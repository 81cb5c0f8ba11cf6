"""Inspect, as its pages "Tutorial", "Scorers" and "Eval Sets" say.

`default`: `eval`. `docs`: `eval_set`, which its page "Eval Sets" recommends for runs that may be
interrupted; the same command goes on. After a kill, `inspect log recover` is run first.
`cache`: `eval` with replies cached by request, as its page "Caching" says.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from inspect_ai import Task, eval, eval_set, task
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.model import GenerateConfig, ModelOutput, get_model
from inspect_ai.scorer import exact, model_graded_qa
from inspect_ai.solver import generate, solver

mode, setting = sys.argv[1:3]
rows = json.loads(Path("rows.json").read_text())
base_url = os.environ["OPENAI_BASE_URL"]
JUDGE = "The answer is right if it repeats the word."
PARTS = "\n{question}\nAnswer: {answer}\nCriterion: {criterion}\n{instructions}"


# What the bot is asked.
def ask(question):
    return f"Answer in one word. {question}"


def server(model):
    config = GenerateConfig(cache=True) if setting == "cache" else GenerateConfig()
    name = f"openai-api/local/{model}"
    return get_model(name, config=config, base_url=base_url, api_key="none")


@solver
def known():
    async def solve(state, generate):
        state.output = ModelOutput.from_content("known", state.target.text)
        return state

    return solve


@task
def words():
    return Task(
        dataset=[
            Sample(id=row["id"], input=ask(row["question"]), target=row["answer"]) for row in rows
        ],
        solver=known() if mode == "judge" else generate(),
        scorer=exact()
        if mode == "match"
        else model_graded_qa(template=JUDGE + PARTS, model=server("judge")),
    )


if setting == "docs":
    for log in Path("logs").glob("*.eval") if "again" in sys.argv else ():
        inspect = Path(sys.executable).with_name("inspect")
        subprocess.run([inspect, "log", "recover", "--overwrite", log], check=False)
    _, logs = eval_set(words(), model=server("bot"), log_dir="logs")
else:
    logs = eval(words(), model=server("bot"), log_dir="logs")
scores = {}
for sample in read_eval_log(logs[0].location).samples or []:
    for score in (sample.scores or {}).values():
        scores[sample.id] = {"C": 1, "I": 0}.get(score.value, score.value)
Path("scores.json").write_text(json.dumps(scores))
