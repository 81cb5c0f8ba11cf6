"""A configuration of the toolkit's in a folder, a model that counts, and `limpet run` on both."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import yaml
from e2e import ready_limpet
from peers.nat.corpus.model_server import MODEL, Model, Server
from peers.nat_environment import PARTS, environment_variables

PATIENCE_S = 120
WRITTEN_KEY, OTHER_KEY = "sk-written-in-the-file", "sk-of-the-environment"


class CountingModel(Model):
    """A model that remembers who asked, and may wait or refuse.

    Attributes:
        asked: The kind, model and prompt of each call, in order.
        free: How many calls are answered while the gate is closed.
        gate: Calls wait for it.
        refusals: How many calls are refused at first.
    """

    def __init__(self):
        self.asked = []
        self.free = 0
        self.gate = threading.Event()
        self.gate.set()
        self.refusals = 0
        super().__init__({"retry_after": 0.05})

    def status(self, kind, prompt, model):
        with self.lock:
            self.asked.append((kind, model, prompt))
            number = len(self.asked)
        if number > self.free:
            self.gate.wait(PATIENCE_S)
        return super().status(kind, prompt, model)

    def _status(self, kind, prompt):
        return 429 if len(self.asked) <= self.refusals else super()._status(kind, prompt)

    def forget(self):
        self.asked.clear()
        self.reset()

    def by_judge(self):
        """Return how many calls each kind of judge made, by kind and model."""
        return dict(Counter((kind, model) for kind, model, _ in self.asked))


@contextmanager
def counting_model():
    server = Server()
    server.model = CountingModel()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.model.gate.set()
        server.shutdown()
        server.server_close()


def llm(model=MODEL, key=WRITTEN_KEY):
    """Return the block of a model."""
    return {
        "_type": "openai",
        "model_name": model,
        "base_url": "http://127.0.0.1:${MODEL_PORT}/v1",
        "api_key": key,
        "temperature": 0.0,
    }


def judge(model="judge"):
    return {"_type": "corpus_judge", "llm_name": model}


def config(workflow="corpus_steps", **evaluators):
    """Return a configuration with two models."""
    return {
        "llms": {"judge": llm(), "other": llm("other-model", "${OTHER_KEY}")},
        "workflow": {"_type": workflow},
        "eval": {
            "general": {
                "max_concurrency": 4,
                "output": {"dir": "./out", "cleanup": False},
                "dataset": {"_type": "json", "file_path": "data.json"},
            },
            "evaluators": evaluators,
        },
    }


class Project:
    """A folder with a configuration, a dataset and a copy of the plug-in."""

    def __init__(self, folder, ready, server):
        self.folder = folder
        self.out = folder / "out"
        self._ready = ready
        self.server = server

    def make(self, config, rows=12):
        self.folder.mkdir(exist_ok=True)
        shutil.copytree(PARTS / "plugin", self.folder / "plugin")
        data = [
            {"id": f"q{n}", "question": f"What is {n} + {n + 1}?", "answer": f"sum {2 * n + 1}"}
            for n in range(rows)
        ]
        (self.folder / "data.json").write_text(json.dumps(data), encoding="utf-8")
        self.configure(config)
        return self

    def copy(self, folder):
        """Return a copy of the project, with its run."""
        shutil.copytree(self.folder, folder)
        return Project(folder, self._ready, self.server)

    def configure(self, config):
        text = yaml.safe_dump(config, sort_keys=False)
        (self.folder / "config.yml").write_text(text, encoding="utf-8")

    def configuration(self):
        return yaml.safe_load((self.folder / "config.yml").read_text(encoding="utf-8"))

    def remove_results(self):
        shutil.rmtree(self.out)
        (self.folder / "traces.jsonl").unlink(missing_ok=True)

    def edit(self, name, old, new):
        file = self.folder / name
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    def environment(self, **variables):
        return environment_variables(
            MODEL_PORT=str(self.server.port),
            OTHER_KEY=OTHER_KEY,
            PYTHONPATH=str(self.folder / "plugin"),
            LIMPET_NAT_JOURNAL="0",
            **variables,
        )

    # ---- running --------------------------------------------------------------------------------

    def start(self, *flags):
        """Start `limpet run` as a process of its own."""
        streams = {name: str(self.folder / f"{name}.txt") for name in ready_limpet.STREAMS}
        for file in streams.values():
            Path(file).write_bytes(b"")
        words = ["python", "-m", "limpet", "run", "config.yml", *map(str, flags)]
        folder = {"cwd": str(self.folder), "environment": self.environment()}
        pid = self._ready.start({"words": words, **folder, **streams})
        return ready_limpet.Started(self._ready, pid)

    def run(self, *flags, code=0):
        """Run `limpet run` to its end; return what it said."""
        ended = self.start(*flags).wait(PATIENCE_S)
        assert ended == code, (ended, self.said())
        return self.said()

    def said(self):
        return "".join((self.folder / f"{name}.txt").read_text() for name in ("stdout", "stderr"))

    def nat_eval(self, commands, *flags):
        done = subprocess.run(
            [commands / "nat", "eval", "--config_file", "config.yml", *flags],
            cwd=self.folder,
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]

    # ---- results --------------------------------------------------------------------------------

    def read(self, name):
        return json.loads((self.out / f"{name}.json").read_text(encoding="utf-8"))

    def scores(self, evaluator):
        items = self.read(f"{evaluator}_output")["eval_output_items"]
        return {item["id"]: item["score"] for item in items}

    def answers(self):
        return {row["id"]: row["generated_answer"] for row in self.read("workflow_output")}

    def lines(self, name):
        """Return the cells of a step that are on disk."""
        file = self.out / f"{name}_output.jsonl"
        return file.read_text(encoding="utf-8").split("\n")[:-1] if file.exists() else []


def wait_until(condition):
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def ready_toolkit(commands):
    """Return a process that has imported the toolkit, and forks."""
    program = (str(commands / "python"), str(PARTS / "ready_toolkit.py"))
    return ready_limpet.Ready(program, environment_variables(PYTHONPATH=os.devnull))
