"""What a stranger gets: the wheel and the source distribution, each in an empty environment."""

import os
import subprocess
import sys
import tarfile
import venv
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from limpet.version import VERSION

ROOT = Path(__file__).parents[2]
OUTSIDE = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.xdist_group("package")]


def do(*command, cwd, **more):
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env={**OUTSIDE, **more},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    do(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    wheel, sdist = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return {"wheel": next(wheel), "sdist": next(sdist)}


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_an_empty_environment_needs_nothing_else(built, kind, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    bin_ = tmp_path / "venv" / "bin"
    do(bin_ / "python", "-m", "pip", "install", "--quiet", built[kind], cwd=tmp_path)
    there = tmp_path / "elsewhere"
    there.mkdir()
    # Nothing of this repository, and no tool of this machine's environment, is in reach.
    path = {"PATH": f"{bin_}:/usr/bin:/bin"}

    assert VERSION in do("limpet", "--version", cwd=there, **path).stdout
    assert "first/eval.yml" in do("limpet", "init", "first", cwd=there, **path).stdout
    done = do("limpet", "run", "first/eval.yml", "--set", "pace=20", cwd=there, **path)
    assert "60/60" in done.stdout
    (run,) = [path.parent for path in there.rglob("summary.json")]
    assert "--port" in do("limpet", "view", "--help", cwd=there, **path).stdout
    do("limpet", "report", run, cwd=there, **path)
    assert (there / "report.html").stat().st_size > 100_000
    imported = do("python", "-c", "import limpet; print(limpet.__file__)", cwd=there, **path)
    assert imported.stdout.startswith(str(tmp_path / "venv"))


def test_the_wheel_has_the_package_and_nothing_else(built):
    with ZipFile(built["wheel"]) as wheel:
        names = wheel.namelist()
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        about = Parser().parsestr(wheel.read(metadata).decode())
    assert {name.split("/")[0].split("-")[0] for name in names} == {"limpet"}
    assert not [name for name in names if "__pycache__" in name]
    assert "limpet/py.typed" in names
    assert about["Version"] == VERSION
    core = [line for line in about.get_all("Requires-Dist") if "extra ==" not in line]
    assert 8 <= len(core) <= 14


def test_the_tests_run_in_the_unpacked_source_distribution(built, tmp_path):
    with tarfile.open(built["sdist"]) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    for path in ROOT.glob("tests/**/*.py"):
        assert (folder / path.relative_to(ROOT)).exists(), path
    some = ["unit/journal/test_lines.py", "docs/test_documents.py", "e2e/test_completion.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider"]
    paths = [f"tests/{path}" for path in some]
    do(*command, "-k", "not python_block", *paths, cwd=folder, PYTHONPATH=str(folder / "src"))
