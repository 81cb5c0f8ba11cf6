"""How do the user's own scripts run when the results are on disk?

As in the toolkit: `python script --output_dir DIR --key value …`, in the current directory. What a
script prints goes to stderr, for stdout is ours.
"""

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from limpet.integrations.nat.wanted import Script
from limpet.text import one_line


def run_scripts(scripts: Sequence[Script], directory: Path, say: Callable[[str], None]) -> bool:
    """Run the scripts, each to its end, in the order of the file.

    Args:
        scripts: Which.
        directory: The run's directory.
        say: Told of each that runs, and of each that fails.

    Returns:
        Whether all of them ended well.
    """
    return all([_run(one, directory, say) for one in scripts])  # noqa: C419 - each of them runs


def _run(script: Script, directory: Path, say: Callable[[str], None]) -> bool:
    arguments = [sys.executable, str(script.path), "--output_dir", str(directory)]
    for key, value in script.arguments.items():
        arguments += [f"--{key}", value]
    name = f"custom_scripts: {one_line(script.name)}"
    say(f"{name} …")
    try:
        code = subprocess.run(arguments, check=False, stdout=sys.stderr).returncode  # noqa: S603 - the user's own
    except OSError as error:
        say(f"{name}: cannot be run: {error.strerror}")
        return False
    if code:
        say(f"{name}: ended with exit code {code}; the results are on disk")
    return code == 0
