"""Run `nat eval` for the configurations, and keep a compact record of what came of each.

It is run by the interpreter of the toolkit's environment:
    python record.py                  # all of cases.json
    python record.py 01_json 07_xls   # some of them
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

from model_server import Server

HERE = Path(__file__).parent
PLUGIN = HERE.parent / "plugin"
UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
JOB = re.compile(r"job_[0-9a-f-]{36}")
STAMP = re.compile(r"^[-\d]{10} [:\d]{8} - ")
STATUS = re.compile(r"Workflow Status: (\w+)")
GIVEN = ("configs", "data", "scripts")


def environment(port: int, extra: dict[str, str]) -> dict[str, str]:
    """Return the environment: no network but the local model."""
    nowhere = "http://127.0.0.1:9"
    return os.environ | {
        "PYTHONPATH": str(PLUGIN),
        "MODEL_PORT": str(port),
        "NAT_TELEMETRY_ENABLED": "0",
        "DO_NOT_TRACK": "1",
        "RAGAS_DO_NOT_TRACK": "true",
        "HF_HUB_OFFLINE": "1",
        "HTTP_PROXY": nowhere,
        "HTTPS_PROXY": nowhere,
        "NO_PROXY": "127.0.0.1,localhost",
        **extra,
    }


def plain(value: Any) -> Any:
    """Shorten what is long, and drop what differs from run to run."""
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    if isinstance(value, str):
        value = UUID.sub("UUID", value)
        return value if len(value) <= 400 else f"{value[:300]} … ({len(value)} characters)"
    return value


def steps_of(row: dict[str, Any], key: str) -> list[list[Any]]:
    return [[step["payload"]["event_type"], step["payload"]["name"]] for step in row.get(key) or []]


def rows_of(folder: Path, case: dict[str, Any]) -> dict[str, Any]:
    """Return what `workflow_output.json` says: answers, steps and columns, by id."""
    file = folder / "workflow_output.json"
    if not file.exists():
        return {}
    keys = {
        "id": "id",
        "answer": "generated_answer",
        "steps": "intermediate_steps",
        **case.get("keys", {}),
    }
    rows = json.loads(file.read_text(encoding="utf-8"))
    if case.get("unstructured"):
        return {"answers": rows}
    return {
        "answers": {str(row[keys["id"]]): plain(row[keys["answer"]]) for row in rows},
        "order": [row[keys["id"]] for row in rows],
        "steps": {str(row[keys["id"]]): steps_of(row, keys["steps"]) for row in rows},
        "columns": sorted({key for row in rows for key in row}),
    }


def scores_of(folder: Path) -> dict[str, Any]:
    """Return what the evaluators' files say, by id."""
    scores = {}
    for file in sorted(folder.glob("*_output.json")):
        if file.name == "workflow_output.json":
            continue
        output = json.loads(file.read_text(encoding="utf-8"))
        if "eval_output_items" not in output:
            continue
        scores[file.name.removesuffix("_output.json")] = {
            "average": output["average_score"],
            "items": [plain(item) for item in output["eval_output_items"]],
        }
    return scores


def run(case: dict[str, Any], server: Server, log: Path | None = None) -> dict[str, Any]:
    """Run one case in a folder of its own."""
    server.model.control = case.get("server", {})
    server.model.reset()
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        for folder in GIVEN:
            shutil.copytree(HERE / folder, work / folder)
        nat = Path(sys.executable).parent / "nat"
        command = [str(nat), "eval", "--config_file", case["config"], *case["flags"]]
        env = environment(server.port, case.get("env", {}))
        begin = time.monotonic()
        for _ in range(case.get("times", 1)):
            done = subprocess.run(
                command, cwd=work, env=env, capture_output=True, text=True, check=False
            )
        seconds = time.monotonic() - begin
        output = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        files = sorted(
            JOB.sub("job_ID", str(path.relative_to(work)))
            for path in work.rglob("*")
            if path.is_file() and path.relative_to(work).parts[0] not in GIVEN
        )
        folder = work / case.get("out", "out")
        if "jobs" in case:
            folder = max((folder / "jobs").iterdir(), key=lambda path: path.stat().st_mtime)
        status = STATUS.search(output)
        record = {
            "exit_code": done.returncode,
            "status": status[1] if status else None,
            "seconds": round(seconds, 1),
            "calls": dict(sorted(server.model.calls.items())),
            "files": files,
            **rows_of(folder, case),
            "scores": scores_of(folder),
        }
        for text in case.get("keep", []):
            if (work / text).exists():
                record.setdefault("texts", {})[text] = (work / text).read_text(encoding="utf-8")
        if done.returncode or not record["scores"]:
            lines = [line for line in output.splitlines() if re.search(r"Error|error", line)]
            record["errors"] = [
                STAMP.sub("", line.replace(temporary, "").strip())[:300] for line in lines[-3:]
            ]
        if log:
            log.write_text(output, encoding="utf-8")
        return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--log", type=Path, help="keep what the last run said")
    args = parser.parse_args()
    cases = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in args.names or cases:
        case = cases[name]
        if not case.get("runnable", True):
            continue
        record = run(case, server, args.log)
        folder = HERE / "expected" / name
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(record, indent=1, ensure_ascii=False) + "\n"
        (folder / "record.json").write_text(text, encoding="utf-8")
        means = {key: value["average"] for key, value in record["scores"].items()}
        print(
            name, record["exit_code"], record["status"], f"{record['seconds']} s", means, flush=True
        )
    server.shutdown()


if __name__ == "__main__":
    main()
