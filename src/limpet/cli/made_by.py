"""Which file made a run, and with which flags: how is that noted, and found again?

Only what decides what the steps are. Headers and other secrets do not, and are left out.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from limpet.cli.again import without_secrets

_PLAIN = ("endpoint", "endpoint_path", "input_key", "result_json_path", "skip_workflow", "reps")
_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(_PLAIN),
    "skip_workflow": False,
    "skip_completed_entries": False,
    "endpoint_header": (),
    "override": (),
    "dataset": None,
    "endpoint_timeout": None,
    "max_retries": None,
}


class MadeBy(NamedTuple):
    """What `read_config` takes."""

    file: Path
    given: dict[str, Any]
    trials: int | None = None
    settings: tuple[str, ...] = ()


def by_file(file: Path) -> MadeBy:
    """Return a file without any flags."""
    return MadeBy(file, dict(_DEFAULTS))


def noted(
    file: Path, run: Path, given: Mapping[str, Any], trials: int | None, settings: Sequence[str]
) -> dict[str, Any]:
    """Return what is noted in `run.json`. Paths are relative to the run: both may be moved."""
    told: dict[str, Any] = {"file": os.path.relpath(file, run)}
    told |= {name: _masked(given[name])[0] for name in _PLAIN if given.get(name)}
    if given.get("dataset") is not None:
        told["dataset"] = os.path.relpath(given["dataset"], run)
    if given.get("override"):
        told["override"] = [_masked("--override", *pair)[1:] for pair in given["override"]]
    if trials is not None:
        told["trials"] = trials
    if settings:
        told["set"] = [_masked("--set", one)[1] for one in settings]
    return told


def found(told: Mapping[str, Any] | None, run: Path) -> MadeBy | None:
    """Return what made a run; None if it was a script, or nobody knows.

    Args:
        told: What is noted in `run.json`.
        run: The run's directory.
    """
    if told is None or not isinstance(told.get("file"), str):
        return None
    given = dict(_DEFAULTS) | {name: told[name] for name in _PLAIN if name in told}
    given["override"] = tuple(tuple(map(str, one)) for one in _listed(told, "override"))
    if isinstance(told.get("dataset"), str):
        given["dataset"] = run / told["dataset"]
    trials = told.get("trials")
    return MadeBy(
        Path(os.path.normpath(run / told["file"])),
        given,
        trials if isinstance(trials, int) else None,
        tuple(map(str, _listed(told, "set"))),
    )


def _listed(told: Mapping[str, Any], name: str) -> list[Any]:
    return told[name] if isinstance(told.get(name), list) else []


def _masked(*arguments: Any) -> list[Any]:
    if not isinstance(arguments[0], str):
        return list(arguments)
    return list(without_secrets(arguments))
