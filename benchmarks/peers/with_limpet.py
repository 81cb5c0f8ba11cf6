"""Limpet, as docs/how-to/evaluate.md and docs/reference/judges.md say.

`default`: a function with openai's client, as with most peers. `docs`: Limpet's own model client,
and a change of the workflow is agreed to beforehand, as a terminal would ask.
"""

import json
import sys
from pathlib import Path

import limpet
from limpet.models import openai_api
from limpet.workflows import openai
from openai import AsyncOpenAI

mode, setting = sys.argv[1:3]
rows = json.loads(Path("rows.json").read_text())
client = AsyncOpenAI()
JUDGE = "The answer is right if it repeats the word. {{input}} {{output}} {{expected}}"


# What the bot is asked.
def ask(question):
    return f"Answer in one word. {question}"


async def answer(question):
    messages = [{"role": "user", "content": ask(question)}]
    reply = await client.chat.completions.create(model="bot", messages=messages)
    return reply.choices[0].message.content


def known(question, expected):
    return expected


def server(model):
    return openai_api(str(client.base_url), model=model)


bot, judge = answer, (client, "judge")
if setting == "docs":
    bot = openai(model=server("bot"), prompt=ask("{{question}}"))
    judge = server("judge")
choices = {"correct": 1, "incorrect": 0}
score = limpet.exact_match(name="score")
if mode != "match":
    score = limpet.judge(judge, JUDGE, choices=choices, name="score")
result = limpet.evaluate(
    rows,
    known if mode == "judge" else bot,
    [score],
    run="run",
    on_change="redo" if setting == "docs" else None,
)
scores = {item.id: item.scores["score"].value for item in result.items if "score" in item.scores}
Path("scores.json").write_text(json.dumps(scores))
