"""Which dataset does the configuration name, and can it be read?"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limpet.config.dataset_checks import checked_side, located
from limpet.config.environment import settled, shown
from limpet.config.errors import Findings, did_you_mean, nearest
from limpet.datasets.sources import SUFFIXES
from limpet.integrations.nat.blocks import Block
from limpet.integrations.nat.wanted import Structure, WantedDataset
from limpet.text import one_line

_SUFFIXES_OF: Mapping[str, tuple[str, ...]] = {
    "json": (".json",),
    "jsonl": (".jsonl", ".ndjson"),
    "csv": (".csv",),
    "parquet": (".parquet",),
    "xls": (".xlsx",),
}
_TYPES = (*_SUFFIXES_OF, "custom")
_DEFAULTS = {"id_key": "id", "question_key": "question", "answer_key": "answer"}


def read_dataset(block: Block, findings: Findings, instead: Path | None) -> WantedDataset:
    """Read `eval.general.dataset`.

    Args:
        block: The block.
        findings: Where to say what is wrong.
        instead: The file of `--dataset`.
    """
    kind = _kind(block, findings)
    written = block.text("file_path")
    function = block.reference("function") if kind == "custom" else None
    kwargs = _kwargs(block, findings) if kind == "custom" else {}
    block.refuse("s3", "datasets are not fetched from S3", "fetch the file, and name it here")
    block.refuse("remote_file_path", "datasets are not fetched", "fetch the file, and name it")
    made = WantedDataset(
        file=instead.absolute() if instead else _located(written),
        shown=str(instead) if instead else written or "",
        function=function,
        kwargs=kwargs,
        id=_said(block, "id_key"),
        structure=_structure(block.block("structure")),
        keep=_filter(block.block("filter"), findings),
    )
    if kind == "custom" and function is None and not block.get("function"):
        findings.add(block.path, "needs function: module.name, which returns the rows")
    if instead is None:
        _check_file(made, kind, block, findings)
    block.check()
    return made


def _kwargs(block: Block, findings: Findings) -> Mapping[str, Any]:
    given = settled(block.get("kwargs"))
    if given is not None and not isinstance(given, Mapping):
        findings.add((*block.path, "kwargs"), f"must be a mapping, not {shown(given)}")
    return given if isinstance(given, Mapping) else {}


def _located(written: str | None) -> Path | None:
    return None if written is None else located(written, Path.cwd())


def _kind(block: Block, findings: Findings) -> str | None:
    kind = block.text("_type")
    if kind is not None and kind not in _TYPES:
        hint = did_you_mean(kind, _TYPES) or f"there are {', '.join(_TYPES)}"
        findings.add((*block.path, "_type"), f"there is no kind of dataset {shown(kind)}", hint)
    return kind


def _said(block: Block, key: str) -> str | None:
    """Return the name of a column, if it is not the one it would have anyway."""
    name = block.text(key)
    return None if name == _DEFAULTS[key] else name


def _structure(block: Block) -> Structure:
    usual = Structure()
    made = Structure(
        disable=block.truth("disable") is True,
        question=_said(block, "question_key"),
        answer=_said(block, "answer_key"),
        generated_answer=block.text("generated_answer_key") or usual.generated_answer,
        trajectory=block.text("trajectory_key") or usual.trajectory,
        expected_trajectory=block.text("expected_trajectory_key") or usual.expected_trajectory,
    )
    block.check()
    return made


def _filter(block: Block, findings: Findings) -> Mapping[str, Any] | None:
    sides = {}
    for ours, theirs in (("allow", "allowlist"), ("deny", "denylist")):
        side = block.block(theirs)
        columns = side.get("field")
        if columns is not None:
            sides[ours] = checked_side(columns, (*side.path, "field"), findings)
        side.check()
    block.check()
    return sides or None


def _check_file(made: WantedDataset, kind: str | None, block: Block, findings: Findings) -> None:
    path, at = made.file, (*block.path, "file_path")
    if not block.is_there:
        hint = "write eval.general.dataset, or give --dataset FILE"
        return findings.add(block.path, "dataset is missing", hint)
    if path is None:
        if kind != "custom":
            findings.add(block.path, "file_path is missing", "or give --dataset FILE")
        return None
    if kind == "custom":
        return None  # what its function makes of the path is its own matter
    shown_path = one_line(made.shown)
    if not path.exists():
        return findings.add(at, f"{shown_path} does not exist", _hint_of_missing(made, findings))
    suffix = path.suffix.lower()
    wanted = _SUFFIXES_OF.get(kind or "json", ())
    if wanted and suffix not in wanted:
        others = [one for one, ends in _SUFFIXES_OF.items() if suffix in ends]
        hint = f"write _type: {others[0]}" if others else f"there are {', '.join(SUFFIXES)}"
        text = f"{shown_path} is no {' or '.join(wanted)} file, which _type {kind or 'json'} reads"
        return findings.add(at, text, hint)
    return None


def _hint_of_missing(made: WantedDataset, findings: Findings) -> str:
    assert made.file is not None
    folder = Path(findings.tree.shown).parent
    if not Path(made.shown).is_absolute() and (folder / made.shown).exists():
        return f"paths start at the current directory, as in nat eval: cd {one_line(str(folder))}"
    try:
        near = nearest(made.file.name, [one.name for one in made.file.parent.iterdir()])
    except OSError:
        near = None
    return f"did you mean {one_line(near)}?" if near else "paths start at the current directory"
