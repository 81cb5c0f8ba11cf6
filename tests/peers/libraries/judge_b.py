"""Runs one evaluation with an evaluator of another library: `judge_b.py KIND FOLDER`.

The server is `JUDGE_URL`; `PROMPT` is part of the prompt.
"""

import os
import sys
from pathlib import Path

import limpet

URL, PROMPT = os.environ["JUDGE_URL"], os.environ.get("PROMPT", "Is it right?")
KEY = "sk-never-written"


def async_client():
    from openai import AsyncOpenAI

    return AsyncOpenAI(api_key=KEY, base_url=URL)


def openevals(**options):
    from openevals.llm import create_async_llm_as_judge

    prompt = PROMPT + " {inputs} {outputs} {reference_outputs}"
    return create_async_llm_as_judge(prompt=prompt, judge=async_client(), model="m", **options)


def openevals_choices():
    return openevals(choices=[0.0, 0.5, 1.0], feedback_key="quality")


def openevals_sync():
    from openai import OpenAI
    from openevals.llm import create_llm_as_judge

    client = OpenAI(api_key=KEY, base_url=URL)
    return create_llm_as_judge(prompt=PROMPT + " {outputs}", judge=client, model="m")


def openevals_langchain():
    from langchain_openai import ChatOpenAI
    from openevals.llm import create_async_llm_as_judge

    chat = ChatOpenAI(model="m", api_key=KEY, base_url=URL)
    return create_async_llm_as_judge(prompt=PROMPT + " {outputs}", judge=chat)


def autoevals():
    from autoevals.llm import LLMClassifier

    scores = {"good": 1, "bad": 0}
    return LLMClassifier(
        "quality", PROMPT + " {{input}} {{output}}", scores, model="m", client=async_client()
    )


def autoevals_environment():
    from autoevals import Factuality

    os.environ |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": URL}
    return Factuality(model="m")


def inspect():
    from inspect_ai.model import get_model
    from inspect_ai.scorer import model_graded_qa

    model = get_model("openai/m", base_url=URL, api_key=KEY, responses_api=False)
    return model_graded_qa(template=PROMPT + " {question} {answer} {criterion}", model=model)


def inspect_by_name():
    from inspect_ai.scorer import model_graded_fact

    os.environ |= {"LOCAL_API_KEY": KEY, "LOCAL_BASE_URL": URL}
    os.environ["INSPECT_EVAL_MODEL"] = "openai-api/local/m"
    return model_graded_fact()


def main():
    kind, folder = sys.argv[1], Path(sys.argv[2])
    rows = [{"id": str(n), "input": f"question {n}", "expected": "yes"} for n in range(3)]

    def other(output):
        (folder / "others").open("a").write("x")
        return len(output)

    limpet.evaluate(
        rows,
        lambda question: f"answer to {question}",
        evaluators={"judge": globals()[kind](), "other": other},
        run=folder / "run",
        retry=0,
        early_stop=False,
    )


if __name__ == "__main__":
    main()
