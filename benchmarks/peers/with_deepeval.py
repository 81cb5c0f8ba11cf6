"""DeepEval, as its pages "Quick Introduction", "Evaluation" and "Flags and Configs" say.

It scores answers that you made, so the bot is asked here, as many at once as it judges.
`default`: its defaults. `docs`: scores that are in its cache are used, and a failed metric does not
stop the run, as "Flags and Configs" recommends where calls may fail.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from deepeval import evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from deepeval.metrics import ExactMatchMetric, GEval
from deepeval.models import LocalModel
from deepeval.test_case import LLMTestCase, SingleTurnParams
from openai import AsyncOpenAI

mode, setting = sys.argv[1:3]
rows = json.loads(Path("rows.json").read_text())
client = AsyncOpenAI()
at_once = asyncio.Semaphore(AsyncConfig().max_concurrent)
JUDGE = "The answer is right if it repeats the word."


# What the bot is asked.
def ask(question):
    return f"Answer in one word. {question}"


async def answer(row):
    if mode == "judge":
        return row["answer"]
    messages = [{"role": "user", "content": ask(row["question"])}]
    async with at_once:
        reply = await client.chat.completions.create(model="bot", messages=messages)
    return reply.choices[0].message.content


async def answers():
    return await asyncio.gather(*map(answer, rows))


cases = [
    LLMTestCase(
        name=row["id"],
        input=row["question"],
        actual_output=output,
        expected_output=row["answer"],
    )
    for row, output in zip(rows, asyncio.run(answers()), strict=True)
]
if mode == "match":
    metric = ExactMatchMetric()
else:
    metric = GEval(
        name="right",
        evaluation_steps=[JUDGE],  # with criteria, it would ask for the steps in each case
        evaluation_params=[
            SingleTurnParams.INPUT,
            SingleTurnParams.ACTUAL_OUTPUT,
            SingleTurnParams.EXPECTED_OUTPUT,
        ],
        model=LocalModel("judge", api_key="none", base_url=os.environ["OPENAI_BASE_URL"]),
    )
safe = setting == "docs"
result = evaluate(
    cases,
    [metric],
    cache_config=CacheConfig(use_cache=safe),
    error_config=ErrorConfig(ignore_errors=safe),
    display_config=DisplayConfig(print_results=False, inspect_after_run=False),
)
scores = {one.name: one.metrics_data[0].score for one in result.test_results if one.metrics_data}
Path("scores.json").write_text(json.dumps(scores))
