"""Which keys does the `eval:` block have, and what is said of those we do not support?

Relative paths start at the current directory, as they do in `nat eval`.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limpet.config.dataset_checks import located
from limpet.config.errors import Findings
from limpet.integrations.nat.blocks import Block, Notes
from limpet.integrations.nat.dataset_block import read_dataset
from limpet.integrations.nat.evaluators import read_evaluators
from limpet.integrations.nat.wanted import (
    DEFAULT_CONCURRENCY,
    DEFAULT_DIR,
    DEFAULT_STEPS,
    Script,
    Wanted,
    WantedOutput,
)

_AT = ("eval",)


def read_eval(data: Any, findings: Findings, dataset: Path | None) -> tuple[Wanted, list[str]]:
    """Read the block.

    Args:
        data: What stands under `eval`, with the values of the environment in it.
        findings: Where to say what is wrong.
        dataset: A file in place of the one that is named.

    Returns:
        What it asks for, and what of it is left out.
    """
    notes = Notes(findings)
    _refuse_file_references(data, _AT, findings)
    block = Block(data, _AT, notes)
    general = block.block("general")
    wanted = Wanted(
        output=_output(general, notes),
        dataset=read_dataset(general.block("dataset"), findings, dataset),
        evaluators=read_evaluators(block.block("evaluators"), findings),
        alias=general.text("workflow_alias"),
        max_concurrency=general.whole("max_concurrency", 1) or DEFAULT_CONCURRENCY,
        per_input_user_id=general.truth("per_input_user_id") is not False,
    )
    general.leave_out("profiler", "not supported, and left out: no profile is written")
    general.leave_out("validate_llm_endpoints")
    general.check()
    block.check()
    return wanted, notes.said


def _output(general: Block, notes: Notes) -> WantedOutput:
    output = general.block("output")
    plain = general.text("output_dir")
    where = output.text("dir") or plain or DEFAULT_DIR
    output.leave_out("s3", "not supported, and left out: nothing is uploaded")
    output.leave_out("remote_dir", "not supported, and left out: nothing is uploaded")
    output.leave_out("write_atif_workflow_output")
    jobs = output.block("job_management")
    kept = "not supported, and left out: no results are ever deleted"
    jobs.leave_out("max_jobs", kept)
    if jobs.get("eviction_policy") not in (None, "time_created"):
        jobs.leave_out("eviction_policy", kept)
    steps = output.texts("workflow_output_step_filter")
    made = WantedOutput(
        dir=located(where, Path.cwd()),
        # Left out, it is true in the toolkit: there it deletes. Here a run goes on unless told.
        cleanup=output.truth("cleanup") is True,
        has_jobs=jobs.truth("append_job_id_to_output_dir") is True,
        steps=DEFAULT_STEPS if steps is None else tuple(steps),
        pre_process=output.reference("custom_pre_eval_process_function"),
        scripts=_scripts(output.block("custom_scripts"), notes.findings),
    )
    if made.dir.is_file():
        key = ("output", "dir") if output.get("dir") else ("output_dir",)
        notes.findings.add((*general.path, *key), f"{where} is a file, not a directory")
    jobs.check()
    output.check()
    return made


def _scripts(block: Block, findings: Findings) -> tuple[Script, ...]:
    scripts = []
    for name in block.keys():  # noqa: SIM118 - a block is no mapping: asking it marks what is known
        one = block.block(name)
        path = one.text("script")
        given = one.block("kwargs")
        arguments = {key: _argument(given.get(key)) for key in given.keys()}  # noqa: SIM118 - as above
        one.check()
        if path is None:
            findings.add(one.path, "needs script, the path of a Python file")
            continue
        file = located(path, Path.cwd())
        if not file.is_file():
            hint = "paths start at the current directory"
            findings.add((*one.path, "script"), f"{path} does not exist", hint)
        scripts.append(Script(name, file, arguments))
    return tuple(scripts)


def _argument(value: Any) -> str:
    if isinstance(value, bool):
        return str(value)  # as the toolkit's own validation would give it
    return "" if value is None else str(value)


def _refuse_file_references(value: Any, path: tuple[str | int, ...], findings: Findings) -> None:
    if isinstance(value, Mapping):
        for key, one in value.items():
            _refuse_file_references(one, (*path, key), findings)
    elif isinstance(value, str) and value.startswith("file://"):
        findings.add(path, "file:// is not read inside eval", "write what the file holds here")
