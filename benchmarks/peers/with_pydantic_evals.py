"""pydantic-evals, as its pages "Quick Start", "LLM Judge" and "Concurrency & Performance" say.

`default`: all cases at once and no retries of its own. `docs`: a limit and retries, as its pages
"Concurrency" and "Retry Strategies" recommend for servers with limits.
"""

import json
import sys
from pathlib import Path

from openai import AsyncOpenAI
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_evals import Case, Dataset
from pydantic_evals.evaluators import EqualsExpected, LLMJudge
from tenacity import stop_after_attempt, wait_exponential

mode, setting = sys.argv[1:3]
rows = json.loads(Path("rows.json").read_text())
client = AsyncOpenAI()
JUDGE = "The answer is right if it repeats the word."


# What the bot is asked.
def ask(question):
    return f"Answer in one word. {question}"


async def answer(question):
    messages = [{"role": "user", "content": ask(question)}]
    reply = await client.chat.completions.create(model="bot", messages=messages)
    return reply.choices[0].message.content


async def known(question):
    return question.split()[-1].strip(".")


judge = LLMJudge(rubric=JUDGE, include_input=True, model=OpenAIChatModel("judge"))
dataset = Dataset(
    name="words",
    cases=[
        Case(name=row["id"], inputs=row["question"], expected_output=row["answer"]) for row in rows
    ],
    evaluators=[EqualsExpected() if mode == "match" else judge],
)
retry = {"stop": stop_after_attempt(3), "wait": wait_exponential(multiplier=1, min=1, max=10)}
settings = {"max_concurrency": 20, "retry_task": retry, "retry_evaluators": retry}
report = dataset.evaluate_sync(
    known if mode == "judge" else answer, **(settings if setting == "docs" else {})
)
scores = {
    case.name: float(result.value)
    for case in report.cases
    for result in {**case.assertions, **case.scores}.values()
}
Path("scores.json").write_text(json.dumps(scores))
