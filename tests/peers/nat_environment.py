"""Where is the real NeMo Agent Toolkit, and how is it made where it is not there yet?

It weighs 1.4 GB and pins tightly, so it has a virtual environment of its own: `.venv-nat`,
beside the project's `.venv`. Made once, in about two minutes, it is used again as long as what is
wanted does not change; `make clean` removes it. uv installs it: pip searches for half an hour; and
compiles it, as each of the tests' commands would have to.
"""

import fcntl
import functools
import hashlib
import os
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLACE = ROOT / ".venv-nat"
PARTS = Path(__file__).parent / "nat"

TOOLKIT = (
    "nvidia-nat[eval,langchain,ragas,profiler]==1.9.0",
    "langchain-core>=1.4",  # `nat eval` imports it and does not ask for it
    "sqlalchemy[asyncio]>=2",  # so does `nat serve`; its extra would bring a Dask cluster too
)
OURS = ("--editable", f"{ROOT}[data]")  # for a run in which both share a process
_MAKING_S, _INSTALLING_S = 120, 1500


class UnavailableError(Exception):
    """The environment cannot be made here; the text says why."""


@functools.cache
def nat_environment() -> Path:
    """Return the directory of the environment's commands; make it if it is not there.

    Raises:
        UnavailableError: It cannot be made.
    """
    ready = PLACE / "ready"
    with _alone():
        if not ready.exists() or ready.read_text(encoding="utf-8") != _mark():
            ready.unlink(missing_ok=True)
            _make()
            ready.write_text(_mark(), encoding="utf-8")
    return PLACE / "bin"


def environment_variables(**more: str) -> dict[str, str]:
    """Return the variables for the toolkit's commands: no telemetry, no network but loopback."""
    nowhere = "http://127.0.0.1:9"
    quiet = {
        "NAT_TELEMETRY_ENABLED": "0",
        "NAT_TELEMETRY_ENDPOINT": "",
        "HF_HUB_OFFLINE": "1",
        "DO_NOT_TRACK": "1",
        "RAGAS_DO_NOT_TRACK": "true",
        **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), nowhere),
        **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
        "PYTHONPATH": str(PARTS / "plugin"),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "ignore",
    }
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NAT_", "PYTEST"))}
    return {**kept, **quiet, **more}


def _mark() -> str:
    """Return what tells whether an environment is the one that is wanted."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ours = (project["dependencies"], project["entry-points"])
    wanted = (sys.version_info[:2], str(ROOT), TOOLKIT, ours, "compiled")
    return hashlib.sha256(repr(wanted).encode()).hexdigest()


@contextmanager
def _alone():
    """Keep other processes out: with pytest-xdist several want to make it at once."""
    folder = os.open(PARTS, os.O_RDONLY)  # a file of its own would have to be cleaned up
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


def _make() -> None:
    _run("making it", _MAKING_S, sys.executable, "-m", "venv", "--clear", str(PLACE))
    (PLACE / ".gitignore").write_text("*\n", encoding="utf-8")
    python = str(PLACE / "bin" / "python")
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run("installing uv", _INSTALLING_S, *pip, "--retries", "1", "uv")
    uv = (str(PLACE / "bin" / "uv"), "pip", "install", "--quiet", "--python", python)
    _run("installing", _INSTALLING_S, *uv, "--compile-bytecode", *TOOLKIT, *OURS)


def _run(what: str, seconds: int, *command: str) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{what}: {error}") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip() or "it said nothing").splitlines()[-1]
        raise UnavailableError(f"{what}: {said[-300:]}")
