"""Runs an evaluation with an evaluator of the toolkit: `judge_nat.py URL FOLDER PROMPT`."""

import sys

from langchain_openai import ChatOpenAI
from nat.plugins.langchain.eval.tunable_rag_evaluator import TunableRagEvaluator

import limpet

url, folder, prompt = sys.argv[1:]
judge = TunableRagEvaluator(
    llm=ChatOpenAI(model="m", api_key="sk-none", base_url=url),
    judge_llm_prompt=prompt,
    llm_retry_control_params=None,
    max_concurrency=4,
    default_scoring=False,
    default_score_weights={},
)
limpet.evaluate(
    [{"id": question, "input": question, "expected": "yes"} for question in ("good", "bad")],
    lambda question: f"answer to {question}",
    {"judge": judge},
    run=f"{folder}/run",
    fail_fast=False,
)
