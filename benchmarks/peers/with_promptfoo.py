"""promptfoo, as its pages "Configuration", "Prompts", "Caching" and "Command line" say.

`default`: its defaults, with the table off. `docs`: 20 calls at once, and `--resume` after a kill.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

mode, setting = sys.argv[1:3]
again = "again" in sys.argv
rows = json.loads(Path("rows.json").read_text())
base_url = os.environ["OPENAI_BASE_URL"]
JUDGE = "The answer is right if it repeats the word."


# What the bot is asked.
def ask(question):
    return f"Answer in one word. {question}"


def server(model):
    return {"id": f"openai:chat:{model}", "config": {"apiBaseUrl": base_url}}


exact = {"type": "equals", "value": "{{answer}}"}
judge = {"type": "llm-rubric", "value": f"{JUDGE} The word: {{{{answer}}}}"}
config = {
    "prompts": ["{{answer}}" if mode == "judge" else ask("{{question}}")],
    "providers": ["echo" if mode == "judge" else server("bot")],
    "defaultTest": {
        "options": {"provider": server("judge")},
        "assert": [exact if mode == "match" else judge],
    },
    "tests": [{"vars": row} for row in rows],
}
Path("promptfooconfig.yaml").write_text(json.dumps(config))  # JSON is YAML
commands = Path(os.environ["PEER_COMMANDS"])
options = ["--no-table", "--no-progress-bar", "-o", "results.json"]
if setting == "docs":
    options += ["-j", "20"] + (["--resume"] if again else [])
subprocess.run(
    [commands / "node", commands / "promptfoo", "eval", *options],
    check=False,
)
file = Path("results.json")
found = json.loads(file.read_text())["results"]["results"] if file.exists() else []
# An error has a score, too: 0, which counts in the pass rate.
scores = {one["vars"]["id"]: one["score"] for one in found}
Path("scores.json").write_text(json.dumps(scores))
