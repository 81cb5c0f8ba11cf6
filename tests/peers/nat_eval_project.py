"""A configuration and a dataset, evaluated by the real `nat eval` with our plug-in."""

import json
import shutil
import subprocess
from collections import Counter
from contextlib import contextmanager

from e2e.nat_server import column, output, wait_until
from peers.nat_environment import PARTS, environment_variables

COMMAND_S = 120
CLEANUP = ("output_dir: ./out", "output: {dir: ./out, cleanup: true}")
JOBS = (
    "output_dir: ./out",
    "output: {dir: ./out, cleanup: false, job_management: {append_job_id_to_output_dir: true}}",
)


class Project:
    """A configuration and a dataset, evaluated by `nat eval`, or by `limpet run`."""

    def __init__(self, commands, folder):
        self.commands = commands
        self.words = [commands / "nat", "eval"]
        self.folder = folder
        folder.mkdir(exist_ok=True)
        shutil.copy(PARTS / "config.yml", folder)
        self.calls_file = folder / "calls.txt"

    def ask(self, *questions):
        """Write the dataset."""
        rows = [
            {"id": f"q{n}", "question": question, "answer": question.split()[-1], "level": n}
            for n, question in enumerate(questions)
        ]
        (self.folder / "data.json").write_text(json.dumps(rows), encoding="utf-8")

    def configure(self, old, new, most=-1):
        file = self.folder / "config.yml"
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new, most), encoding="utf-8")

    def command(self, *flags, hold="", **variables):
        """Return how to run it; calls that begin with the word `hold` wait for ever."""
        for file in self.folder.glob("hold-*"):
            file.unlink()
        (self.folder / f"hold-{hold}").touch()
        if (self.folder / "plugin").exists():
            variables["PYTHONPATH"] = str(self.folder / "plugin")
        return {
            "args": [*self.words, "--config_file", "config.yml", *flags],
            "cwd": self.folder,
            "env": environment_variables(CALLS=str(self.calls_file), **variables),
        }

    def use_limpet(self):
        """Run `limpet run` from now on."""
        self.words = [self.commands / "limpet", "run"]
        return self

    def own_plugin(self):
        """Copy the plug-in, so that its code can be edited."""
        shutil.copytree(PARTS / "plugin", self.folder / "plugin")

    def edit_code(self, old, new):
        file = self.folder / "plugin" / "limpet_peer.py"
        text = file.read_text(encoding="utf-8")
        assert old in text
        file.write_text(text.replace(old, new), encoding="utf-8")

    def evaluate(self, *flags, code=0, **variables):
        """Run the command; return what it wrote to stderr and stdout."""
        done = subprocess.run(
            **self.command(*flags, **variables),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        assert done.returncode == code, done.stdout[-3000:]
        return done.stdout

    @contextmanager
    def held(self, *flags, until, **variables):
        """Run the command until something is true; kill it at the end."""
        log = self.folder / "held.log"
        with log.open("wb") as file:
            process = subprocess.Popen(
                **self.command(*flags, **variables), stdout=file, stderr=file
            )

        def reached():
            assert process.poll() is None, log.read_text(encoding="utf-8")[-3000:]
            return until()

        try:
            wait_until(reached)
            yield process
        finally:
            process.kill()
            process.wait()

    def killed(self, *flags, until, **variables):
        with self.held(*flags, until=until, **variables):
            pass

    def journaled(self):
        return len(column(self.folder, where="out.journal"))

    def reached(self, journaled, asked):
        """Return a check: so many answers are on disk, and so many questions were asked."""
        return lambda: self.journaled() == journaled and len(self.asked()) == asked

    def asked(self):
        file = self.calls_file
        return file.read_text(encoding="utf-8").splitlines() if file.exists() else []

    def calls(self):
        """Return how often the workflow was asked what, since the last look."""
        asked = self.asked()
        self.calls_file.write_text("", encoding="utf-8")
        return Counter(asked)

    def live(self):
        """Return the lines of the live file."""
        file = self.folder / "out" / "workflow_output.jsonl"
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def journals(self):
        return sorted(path.name for path in self.folder.glob("*.journal*"))


def final(project):
    """Return what the final files say: ids, answers, steps and scores, in order."""
    [found] = [path.parent for path in project.folder.glob("out/**/workflow_output.json")]
    answers = output(found.parent, where=found.name)
    scores = output(found.parent, "correct", where=found.name)
    for row in answers:
        row["intermediate_steps"] = [
            (step["payload"]["event_type"], step["payload"]["data"], step["payload"]["usage_info"])
            for step in row["intermediate_steps"]
        ]
    return answers, scores


SIX = ["Repeat a0", "Repeat a1", "Repeat a2", "Repeat a3", "Wait a4", "Wait a5"]
QUICK, SLOW = SIX[:4], SIX[4:]
