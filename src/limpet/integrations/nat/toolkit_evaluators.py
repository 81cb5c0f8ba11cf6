"""Which evaluators does the toolkit have that we do not, and what comes nearest?"""

from collections.abc import Mapping

JUDGE = "similarity for the wording; a judge of your own for the meaning"
_MEASURED = "none: seconds and tokens of each call stand in workflow_output.jsonl"

NEAREST: Mapping[str, str] = {
    "ragas": JUDGE,
    "tunable_rag_evaluator": JUDGE,
    "rag_evaluator": JUDGE,
    "trajectory": "trajectory, without llm_name: it compares calls of tools by their names",
    "trajectory_evaluator": "trajectory: it compares calls of tools by their names",
    "langsmith": "exact_match or similarity",
    "langsmith_custom": "none",
    "langsmith_judge": JUDGE,
    "red_teaming_evaluator": "regex, for what must not be said",
    "swe_bench": "none",
    "avg_llm_latency": _MEASURED,
    "avg_workflow_runtime": _MEASURED,
    "avg_num_llm_calls": _MEASURED,
    "avg_tokens_per_llm_end": _MEASURED,
}
OWN = "{_type: python, function: module:name}"
