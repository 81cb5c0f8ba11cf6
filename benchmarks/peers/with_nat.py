"""The NeMo Agent Toolkit, as its page "Evaluating NeMo Agent Toolkit Workflows" says.

`default`: its defaults. `docs`: a second command with `--skip_completed_entries` goes on, and a
judge's refused calls are tried again, as its pages recommend for servers with limits.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

mode, setting = sys.argv[1:3]
rows = json.loads(Path("rows.json").read_text())
base_url = os.environ["OPENAI_BASE_URL"]
JUDGE = "The answer is right if it repeats the word."


# What the bot is asked.
def ask(question):
    return f"Answer in one word. {question}"


def server(model):
    return {"_type": "openai", "model_name": model, "base_url": base_url, "api_key": "none"}


exact = {"_type": "langsmith", "evaluator": "exact_match"}
# `langsmith_judge` cannot be used: it refuses the model that this version makes for it.
judge = {"_type": "tunable_rag_evaluator", "judge_llm_prompt": JUDGE, "llm_name": "judge"}
if setting == "docs":
    judge["llm_retry_control_params"] = {
        "stop_after_attempt": 10,
        "initial_backoff_delay_seconds": 1,
        "has_exponential_jitter": True,
    }
config = {
    "llms": {"bot": server("bot"), "judge": server("judge")},
    "workflow": {"_type": "chat_completion", "llm_name": "bot"},
    "eval": {
        "general": {
            "output_dir": "out",
            "dataset": {"_type": "json", "file_path": "dataset.json"},
        },
        "evaluators": {"score": exact if mode == "match" else judge},
    },
}
Path("config.yml").write_text(json.dumps(config))  # JSON is YAML
dataset = [{**row, "question": ask(row["question"])} for row in rows]
command = ["eval", "--config_file", "config.yml"]
if mode == "judge":
    dataset = [{**row, "generated_answer": row["answer"]} for row in dataset]
    command += ["--skip_workflow"]
elif setting == "docs" and Path("out/workflow_output.json").exists():
    command += ["--skip_completed_entries", "--dataset", "out/workflow_output.json"]
Path("dataset.json").write_text(json.dumps(dataset))
subprocess.run([Path(sys.executable).with_name("nat"), *command], check=False)
file = Path("out/score_output.json")
found = json.loads(file.read_text())["eval_output_items"] if file.exists() else []
Path("scores.json").write_text(json.dumps({one["id"]: one["score"] for one in found}))
