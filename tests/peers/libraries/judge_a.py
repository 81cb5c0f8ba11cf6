"""Runs one evaluation with an evaluator of another library: `judge_a.py KIND FOLDER`.

The server is `JUDGE_URL`; `PROMPT` is part of the prompt.
"""

import os
import sys
from pathlib import Path

import limpet
from limpet.evaluators import as_evaluator

URL, PROMPT = os.environ["JUDGE_URL"], os.environ.get("PROMPT", "Is it right?")
KEY = "sk-never-written"


def phoenix():
    from phoenix.evals import LLM, ClassificationEvaluator

    return ClassificationEvaluator(
        name="quality",
        llm=LLM(provider="openai", model="m", base_url=URL, api_key=KEY),
        prompt_template=PROMPT + " {input} {output}",
        choices={"good": 1, "bad": 0},
    )


def deepeval():
    from deepeval.metrics import GEval
    from deepeval.models import OpenAIModel
    from deepeval.test_case import SingleTurnParams as Params

    return GEval(
        name="Quality",
        evaluation_steps=[PROMPT],
        evaluation_params=[Params.INPUT, Params.ACTUAL_OUTPUT, Params.EXPECTED_OUTPUT],
        model=OpenAIModel(model="gpt-4.1", base_url=URL, api_key=KEY),
    )


def deepeval_unknown_model():
    from deepeval.metrics import GEval
    from deepeval.models import OpenAIModel
    from deepeval.test_case import SingleTurnParams as Params

    class OwnModel(OpenAIModel):
        """A model whose price DeepEval does not know: it counts no tokens."""

    return GEval(
        name="Quality",
        evaluation_steps=[PROMPT],
        evaluation_params=[Params.INPUT, Params.ACTUAL_OUTPUT],
        model=OwnModel(model="my-own-model", base_url=URL, api_key=KEY),
    )


def pydantic_evals():
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_evals.evaluators import LLMJudge

    model = OpenAIChatModel("m", provider=OpenAIProvider(base_url=URL, api_key=KEY))
    return LLMJudge(rubric=PROMPT, model=model, include_input=True)


def pydantic_evals_by_name():
    from pydantic_evals.evaluators import LLMJudge

    os.environ.update(OPENAI_BASE_URL=URL, OPENAI_API_KEY=KEY)
    return LLMJudge(rubric=PROMPT, model="openai-chat:m")


def _ragas_model():
    from openai import AsyncOpenAI
    from ragas.llms import llm_factory

    return llm_factory("m", client=AsyncOpenAI(base_url=URL, api_key=KEY))


def ragas():
    from ragas.metrics import DiscreteMetric

    metric = DiscreteMetric(
        name="quality", prompt=PROMPT + " {user_input} {response}", allowed_values=["good", "bad"]
    )
    return as_evaluator(metric, "judge", inputs={"llm": _ragas_model()})


def ragas_faithfulness():
    from ragas.metrics.collections import Faithfulness

    metric = Faithfulness(llm=_ragas_model())
    metric.nli_statement_prompt.instruction = PROMPT
    return as_evaluator(metric, "judge", inputs={"retrieved_contexts": "{{docs}}"})


def ragas_older():
    from langchain_openai import ChatOpenAI
    from ragas.llms import LangchainLLMWrapper
    from ragas.metrics import AspectCritic

    chat = ChatOpenAI(model="m", api_key=KEY, base_url=URL)
    return AspectCritic(name="quality", definition=PROMPT, llm=LangchainLLMWrapper(chat))


def answer(question):
    return f"the answer to {question}"


def beside(output):
    with Path(sys.argv[2], "others").open("a", encoding="utf-8") as file:
        file.write(".")
    return True


if __name__ == "__main__":
    kind, folder = sys.argv[1:]
    rows = [
        {"id": str(number), "question": f"q{number}", "answer": "4", "docs": ["one", "two"]}
        for number in range(3)
    ]
    limpet.evaluate(
        rows,
        answer,
        {"judge": globals()[kind](), "beside": as_evaluator(beside, depends_on=None)},
        run=Path(folder) / "run",
        pace=limpet.Pace(concurrency=1),
        fail_fast=False,
        show=False,
    )
