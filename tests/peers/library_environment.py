"""Virtual environments for other people's packages, each beside the project's `.venv`.

Made once, in a minute or two, one is used again as long as what is wanted does not change; `make
clean` removes it. Its packages are compiled at once: the tests' commands write no bytecode, as
bytecode of a file that is edited within a second may be taken for that of the edit. One that cannot
be made is an error of the test, not a reason to skip it.
"""

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
import tomllib
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARIES = (
    "arize-phoenix-evals==3.9.4", "pydantic-evals==2.62", "deepeval==4.3.1", "openevals==0.2.2",
    "autoevals==0.4.1", "inspect-ai==0.3.285", "openai==3.49",
)  # fmt: skip
"""Those of the libraries that can be installed together."""
_SECONDS = 1500
_NOWHERE = "http://127.0.0.1:9"
_QUIET = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _NOWHERE),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost"),
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}


@functools.cache
def environment(name, *packages, ours=True, with_pip=False):
    """Return the directory of the commands of an environment; make it if it is not there.

    Args:
        name: It is `.venv-<name>`.
        packages: What is installed, as pip names it, one step for each tuple of them.
        ours: Whether this project is installed too.
        with_pip: Install with pip, which finds wheels in places that uv does not look in.
    """
    place = ROOT / f".venv-{name}"
    steps = [step if isinstance(step, tuple) else (step,) for step in packages]
    if ours:
        steps[-1] += ("--editable", f"{ROOT}[data]")
    with _alone(place):
        ready = place / "ready"
        if not ready.exists() or ready.read_text(encoding="utf-8") != _mark(steps):
            run(sys.executable, "-m", "venv", "--clear", str(place))
            (place / ".gitignore").write_text("*\n", encoding="utf-8")
            for step in steps:
                run(*_installer(place, with_pip=with_pip), *step)
            ready.write_text(_mark(steps), encoding="utf-8")
    return place / "bin"


@functools.cache
def npm_package(*packages, name="npm"):
    """Return the directory of the commands of packages from npm; install what is not there."""
    place = ROOT / f".venv-{name}"
    wanted = " ".join(packages)
    npm = shutil.which("npm")
    assert npm, "npm is needed for this test: install Node.js"
    with _alone(place):
        ready = place / "ready"
        if not ready.exists() or ready.read_text(encoding="utf-8") != wanted:
            place.mkdir(exist_ok=True)
            (place / ".gitignore").write_text("*\n", encoding="utf-8")
            run(npm, "install", "--prefix", str(place), "--no-audit", "--no-fund", *packages)
            ready.write_text(wanted, encoding="utf-8")
    return place / "node_modules" / ".bin"


def libraries():
    """Return the directory of the commands of the environment with all of `LIBRARIES`."""
    return environment("libraries", LIBRARIES)


def variables(**more):
    """Return the variables for a command: no network but loopback, nothing of this process."""
    left_out = ("PYTHON", "PYTEST", "OPENAI_", "INSPECT_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(left_out)}
    return {**kept, **_QUIET, **more}


def run(*command, **options):
    """Run a command to its end, and fail with what it said."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_SECONDS, check=False, **options
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}"
    return done.stdout


def _installer(place, *, with_pip):
    python = str(place / "bin" / "python")
    pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    if with_pip:
        return pip
    if not (place / "bin" / "uv").exists():
        run(*pip, "uv")
    uv = str(place / "bin" / "uv")
    return uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python


def _mark(steps):
    """Return what tells whether an environment is the one that is wanted."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = (sys.version_info[:2], str(ROOT), steps, project["dependencies"], "compiled")
    return hashlib.sha256(repr(wanted).encode()).hexdigest()


@contextmanager
def _alone(place):
    """Keep other processes out: with pytest-xdist several want to make it at once."""
    with open(f"{place}.lock", "w", encoding="utf-8") as lock:  # noqa: PTH123 - it is only locked
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
