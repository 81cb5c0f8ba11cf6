"""Runs an evaluation with evaluators of openevals, autoevals and Inspect: `judges_b.py FOLDER`.

The server is `JUDGE_URL`. Each asks the model that is called like it. `EDITED` is one with another
prompt, `ITEMS` are the questions.
"""

import os
import sys
from pathlib import Path

import autoevals
from autoevals.llm import LLMClassifier
from inspect_ai.model import get_model
from inspect_ai.scorer import model_graded_fact, model_graded_qa
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI, OpenAI
from openevals.llm import create_async_llm_as_judge, create_llm_as_judge

import limpet

URL, KEY = os.environ["JUDGE_URL"], "sk-never-written"
os.environ |= {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": URL}
os.environ |= {"LOCAL_API_KEY": KEY, "LOCAL_BASE_URL": URL}
os.environ["INSPECT_EVAL_MODEL"] = "openai-api/local/inspect_by_name"


def evaluators():
    """Return the evaluators, by the name of the model that each asks."""
    client, sync_client = AsyncOpenAI(), OpenAI()
    chat = ChatOpenAI(model="openevals_langchain")
    model = get_model("openai/inspect", responses_api=False)
    return {
        "openevals": create_async_llm_as_judge(
            prompt=prompt("openevals", "{inputs} {outputs} {reference_outputs}"),
            judge=client,
            model="openai:openevals",
        ),
        "openevals_choices": create_async_llm_as_judge(
            prompt=prompt("openevals_choices", "{inputs} {outputs}"),
            judge=client,
            model="openevals_choices",
            choices=[0.0, 0.5, 1.0],
        ),
        "openevals_sync": create_llm_as_judge(
            prompt=prompt("openevals_sync", "{inputs} {outputs}"),
            judge=sync_client,
            model="openevals_sync",
        ),
        "openevals_langchain": create_async_llm_as_judge(
            prompt=prompt("openevals_langchain", "{inputs} {outputs}"), judge=chat
        ),
        "autoevals": LLMClassifier(
            "quality",
            prompt("autoevals", "{{input}} {{output}}"),
            {"good": 1, "bad": 0},
            model="autoevals",
            client=client,
        ),
        "autoevals_environment": autoevals.Factuality(model="autoevals_environment"),
        "inspect": model_graded_qa(
            template=prompt("inspect", "{question} {answer} {criterion}"), model=model
        ),
        "inspect_by_name": model_graded_fact(),
    }


def prompt(name, fields):
    return ("Is it good? " if os.environ.get("EDITED") == name else "Is it right? ") + fields


if __name__ == "__main__":
    rows = [{"input": question, "expected": "yes"} for question in os.environ["ITEMS"].split(",")]
    limpet.evaluate(
        [{"id": row["input"], **row} for row in rows],
        lambda question: f"answer to {question}",
        evaluators=evaluators(),
        run=Path(sys.argv[1]) / "run",
        retry=0,
        fail_fast=False,
    )
