"""What the repository holds is small: a run that is committed by mistake stays in every clone."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST_BYTES = 400_000


def test_no_file_in_git_is_large():
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("this is no clone, or git is not installed")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)  # noqa: S607
    names = listed.stdout.decode().split("\0")[:-1]
    assert "README.md" in names
    files = [ROOT / name for name in names]
    large = {
        str(file.relative_to(ROOT)): file.lstat().st_size
        for file in files
        # One that was removed and not yet committed is no more there.
        if (file.is_symlink() or file.exists()) and file.lstat().st_size > MOST_BYTES
    }
    assert large == {}
