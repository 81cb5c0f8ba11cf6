"""MLflow, as its pages "Evaluation Quickstart", "Custom Judges" and "Evaluation FAQ" say.

`default`: its defaults, which write to a SQLite file. `docs`: `mlflow server` runs beside it, at
`MLFLOW_TRACKING_URI`, as the quickstart says. The FAQ's switch that saves one call of the function,
before the run, is not measured apart.
"""

import json
import os
import sys
from pathlib import Path
from typing import Literal

import mlflow
from mlflow.genai import scorer
from mlflow.genai.judges import make_judge
from openai import OpenAI

mode = sys.argv[1]
rows = json.loads(Path("rows.json").read_text())
client = OpenAI()
JUDGE = "The answer is right if it repeats the word. {{ inputs }} {{ outputs }} {{ expectations }}"


# What the bot is asked.
def ask(question):
    return f"Answer in one word. {question}"


@mlflow.trace
def answer(question):
    messages = [{"role": "user", "content": ask(question)}]
    reply = client.chat.completions.create(model="bot", messages=messages)
    return reply.choices[0].message.content


@scorer
def exact(outputs, expectations):
    return outputs == expectations["expected_response"]


judge = make_judge(
    name="right",
    instructions=JUDGE,
    model="openai:/judge",
    feedback_value_type=Literal["correct", "incorrect"],
    base_url=f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
)
data = [
    {
        "inputs": {"question": row["question"]},
        "expectations": {"expected_response": row["answer"]},
        **({"outputs": row["answer"]} if mode == "judge" else {}),
    }
    for row in rows
]
mlflow.set_experiment("words")
result = mlflow.genai.evaluate(
    data=data,
    scorers=[exact if mode == "match" else judge],
    **({} if mode == "judge" else {"predict_fn": answer}),
)
known = {row["question"]: row["id"] for row in rows}
name = "exact/value" if mode == "match" else "right/value"
values = {True: 1, False: 0, "correct": 1, "incorrect": 0, "yes": 1, "no": 0}
scores = {
    known[row["request"]["question"]]: values.get(row.get(name))
    for row in result.result_df.to_dict("records")
}
Path("scores.json").write_text(json.dumps(scores))
