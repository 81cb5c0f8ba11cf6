"""Phoenix, as its pages "Run Experiments" and "LLM Evaluators" say; `phoenix serve` runs beside it.

`default`: `run_experiment`, which makes one call at a time. `docs`: `async_run_experiment` with 20
at once, and `resume_experiment` after a kill. `rate_limit_errors` is left out: with it, calls begin
at one a second, and the evaluator slows down without it, too. With the default `timeout` of five
seconds, a dataset of 2,000 rows cannot be uploaded here.
"""

import asyncio
import hashlib
import json
import sys
from pathlib import Path

from openai import AsyncOpenAI, OpenAI
from phoenix.client import AsyncClient, Client
from phoenix.evals import ClassificationEvaluator, LLM

mode, setting = sys.argv[1:3]
again = "again" in sys.argv
rows = json.loads(Path("rows.json").read_text())
ids = {row["question"]: row["id"] for row in rows}
bot, async_bot = OpenAI(), AsyncOpenAI()
JUDGE = "The answer is right if it repeats the word. {input} {output} {expected}"


# What the bot is asked.
def ask(question):
    return f"Answer in one word. {question}"


def asked(client, question):
    messages = [{"role": "user", "content": ask(question)}]
    return client.chat.completions.create(model="bot", messages=messages)


def answer(input):
    return asked(bot, input["question"]).choices[0].message.content


async def async_answer(input):
    return (await asked(async_bot, input["question"])).choices[0].message.content


def known(expected):
    return expected["answer"]


def exact(output, expected):
    return output == expected["answer"]


client = Client()
judge = ClassificationEvaluator(
    name="score",
    llm=LLM(provider="openai", model="judge"),
    prompt_template=JUDGE,
    choices={"correct": 1, "incorrect": 0},
)
sync, evaluators = setting == "default", {"score": exact if mode == "match" else judge}
task = known if mode == "judge" else answer if sync else async_answer
experiments = (client if sync else AsyncClient()).experiments
given = {"task": task, "evaluators": evaluators}

# A dataset is made once; one whose rows were edited is another.
name = hashlib.sha256(json.dumps(rows).encode()).hexdigest()
if name in [dataset["name"] for dataset in client.datasets.list()]:
    dataset = client.datasets.get_dataset(dataset=name)
else:
    examples = [
        {"input": {"question": row["question"]}, "output": {"answer": row["answer"]}}
        for row in rows
    ]
    dataset = client.datasets.create_dataset(name=name, examples=examples, timeout=120)
begun = client.experiments.list(dataset_id=dataset.id)
if sync:
    found = experiments.run_experiment(dataset=dataset, **given)
elif again and begun:
    asyncio.run(experiments.resume_experiment(experiment_id=begun[0]["id"], **given))
    found = client.experiments.get_experiment(experiment_id=begun[0]["id"])
else:
    found = asyncio.run(experiments.run_experiment(dataset=dataset, concurrency=20, **given))
questions = {example["id"]: example["input"]["question"] for example in dataset.examples}
runs = {run["id"]: questions[run["dataset_example_id"]] for run in found["task_runs"]}
scores = {
    ids[runs[one.experiment_run_id]]: (one.result or {}).get("score")
    for one in found["evaluation_runs"]
}
Path("scores.json").write_text(json.dumps(scores))
