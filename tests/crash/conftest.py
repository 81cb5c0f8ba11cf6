import shutil
import subprocess

import pytest


@pytest.fixture(scope="session")
def strace():
    """The words that put a command under strace, ready for `-e inject=…`."""
    path = shutil.which("strace")
    if path is None:
        pytest.skip("strace is not installed: the system's failures cannot be made to happen")
    command = [path, "-f", "-qq", "-o", "/dev/null", "-e", "trace=fdatasync"]
    tried = subprocess.run(
        [*command, "-e", "inject=fdatasync:error=EIO", "true"],
        capture_output=True,
        check=False,
    )
    if tried.returncode:
        pytest.skip(f"strace cannot inject here: {tried.stderr.decode(errors='replace').strip()}")
    return [path, "-f", "-qq", "-o", "/dev/null"]


@pytest.fixture
def small_disk(tmp_path):
    """A file system of its own with room for two megabytes."""
    place = tmp_path / "small disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(place)],  # noqa: S607
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip(f"no tmpfs can be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)  # noqa: S607
