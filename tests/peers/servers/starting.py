"""Servers that nobody here wrote, started for a test: aimock, LiteLLM's proxy, transformers."""

import json
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from peers.library_environment import environment, npm_package, run, variables

PATIENCE_S = 300
LITELLM = "litellm[proxy]==1.106.2"  # two releases, 1.82.7 and 1.82.8, carried malware
MASTER_KEY = "sk-the-proxys-own-5f2c9a1b7d3e"


@contextmanager
def aimock(folder, fixtures, **llm):
    """Start `@copilotkit/aimock` with these fixtures; yield its base address."""
    (folder / "fixtures.json").write_text(json.dumps({"fixtures": fixtures}))
    (folder / "aimock.json").write_text(json.dumps({"llm": {"fixtures": "./fixtures.json", **llm}}))
    command = [str(npm_package("@copilotkit/aimock@1.43") / "aimock"), "-c", "aimock.json"]
    with started(folder, lambda port: [*command, "-p", str(port)], "/health") as url:
        yield url


@contextmanager
def litellm_proxy(folder, config):
    """Start LiteLLM's proxy with this configuration; yield its base address."""
    (folder / "config.yaml").write_text(json.dumps(config))
    command = [str(environment("litellm", LITELLM, ours=False) / "litellm")]
    command += ["--config", "config.yaml", "--host", "127.0.0.1", "--telemetry", "False"]
    with started(
        folder,
        lambda port: [*command, "--port", str(port)],
        "/health/liveliness",
        LITELLM_LOCAL_MODEL_COST_MAP="True",
        LITELLM_MASTER_KEY=MASTER_KEY,
    ) as url:
        yield url


@contextmanager
def transformers_serve(folder):
    """Start `transformers serve` with a random model; yield its base address and the model."""
    commands = environment(
        "transformers", "torch==2.13.0", "transformers[serving]==5.22.*", ours=False, with_pip=True
    )
    model = folder / "random-llama"
    run(str(commands / "python"), str(Path(__file__).parent / "random_model.py"), str(model))
    command = [str(commands / "transformers"), "serve", str(model), "--device", "cpu"]
    command += ["--host", "127.0.0.1"]
    with started(folder, lambda port: [*command, "--port", str(port)], "/health") as url:
        yield url, str(model)


@contextmanager
def started(folder, command, health, **more):
    """Run a server in a process group of its own until the block ends; yield its address."""
    port = _free_port()
    with (folder / "server.log").open("w") as log:
        process = subprocess.Popen(
            command(port), cwd=folder, env=variables(**more), stdout=log, stderr=log,
            start_new_session=True,
        )  # fmt: skip
    try:
        _wait(process, f"http://127.0.0.1:{port}{health}", folder / "server.log")
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process, address, log):
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until:
        assert process.poll() is None, f"the server ended:\n{log.read_text()[-4000:]}"
        try:
            with urllib.request.urlopen(address, timeout=5):  # noqa: S310 - of this machine
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise AssertionError(f"the server does not answer:\n{log.read_text()[-4000:]}")


def _free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return listening.getsockname()[1]
