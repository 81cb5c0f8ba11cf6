"""Which file made a run, and with which flags?

Recorded in `run.json`, so that `limpet why` can load the same configuration again. Headers and
other secrets do not affect identity and are left out.
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
    """The arguments of `read_config`."""

    file: Path
    given: dict[str, Any]
    trials: int | None = None
    settings: tuple[str, ...] = ()


def by_file(file: Path) -> MadeBy:
    """Return the origin for a file without any flags."""
    return MadeBy(file, dict(_DEFAULTS))


def noted(
    file: Path, run: Path, given: Mapping[str, Any], trials: int | None, settings: Sequence[str]
) -> dict[str, Any]:
    """Return the record for `run.json`. Paths are relative to the run: both may move together."""
    record: dict[str, Any] = {"file": os.path.relpath(file, run)}
    record |= {name: _masked(given[name])[0] for name in _PLAIN if given.get(name)}
    if given.get("dataset") is not None:
        record["dataset"] = os.path.relpath(given["dataset"], run)
    if given.get("override"):
        record["override"] = [_masked("--override", *pair)[1:] for pair in given["override"]]
    if trials is not None:
        record["trials"] = trials
    if settings:
        record["set"] = [_masked("--set", setting)[1] for setting in settings]
    return record


def found(record: Mapping[str, Any] | None, run: Path) -> MadeBy | None:
    """Return what made a run; None if a script did, or if it is unknown.

    Args:
        record: The record in `run.json`.
        run: The run's directory.
    """
    if record is None or not isinstance(record.get("file"), str):
        return None
    given = dict(_DEFAULTS) | {name: record[name] for name in _PLAIN if name in record}
    given["override"] = tuple(tuple(map(str, pair)) for pair in _listed(record, "override"))
    if isinstance(record.get("dataset"), str):
        given["dataset"] = run / record["dataset"]
    trials = record.get("trials")
    return MadeBy(
        Path(os.path.normpath(run / record["file"])),
        given,
        trials if isinstance(trials, int) else None,
        tuple(map(str, _listed(record, "set"))),
    )


def _listed(record: Mapping[str, Any], name: str) -> list[Any]:
    return record[name] if isinstance(record.get(name), list) else []


def _masked(*arguments: Any) -> list[Any]:
    if not isinstance(arguments[0], str):
        return list(arguments)
    return list(without_secrets(arguments))
