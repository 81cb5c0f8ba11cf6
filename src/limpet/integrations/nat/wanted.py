"""What does the `eval:` block say, once it has been read?"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DEFAULT_DIR = "./.tmp/nat/examples/default"
"""Where the toolkit writes if nobody says where."""
DEFAULT_CONCURRENCY = 8
DEFAULT_STEPS = ("LLM_END", "TOOL_END")


@dataclass(frozen=True, slots=True)
class Structure:
    """What the columns are called. None: the toolkit's own name, and nobody said it.

    Attributes:
        disable: The whole row is what is asked.
        question: The column of what is asked.
        answer: The column of the expected answer.
        generated_answer: The column of the answer.
        trajectory: The column of the steps on the way.
        expected_trajectory: The column of the steps that are expected.
    """

    disable: bool = False
    question: str | None = None
    answer: str | None = None
    generated_answer: str = "generated_answer"
    trajectory: str = "intermediate_steps"
    expected_trajectory: str = "expected_intermediate_steps"


@dataclass(frozen=True, slots=True)
class WantedDataset:
    """Where the rows are.

    Attributes:
        file: The file, absolute; None: a function needs none.
        shown: The file, as it is written.
        function: A function that returns the rows, as module:name; None: the file holds them.
        kwargs: What else that function gets.
        id: The column of the ids, if somebody said so.
        structure: What the other columns are called.
        keep: Which rows to keep: `allow` and `deny`.
    """

    file: Path | None = None
    shown: str = ""
    function: str | None = None
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    id: str | None = None
    structure: Structure = field(default_factory=Structure)
    keep: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Script:
    """A script of the user's that runs when the results are on disk."""

    name: str
    path: Path
    arguments: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WantedOutput:
    """What is written, and where.

    Attributes:
        dir: The directory.
        cleanup: Whether a finished run that is there makes room for a new one.
        has_jobs: Whether each run has a directory of its own under `jobs/`.
        steps: Which types of steps are kept.
        pre_process: What changes an answer before it is scored, as module:name.
        scripts: What runs in the end.
    """

    dir: Path
    cleanup: bool = False
    has_jobs: bool = False
    steps: tuple[str, ...] = DEFAULT_STEPS
    pre_process: str | None = None
    scripts: tuple[Script, ...] = ()


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the block asks for."""

    output: WantedOutput
    dataset: WantedDataset
    evaluators: Mapping[str, Any]
    alias: str | None = None
    max_concurrency: int = DEFAULT_CONCURRENCY
    per_input_user_id: bool = True
