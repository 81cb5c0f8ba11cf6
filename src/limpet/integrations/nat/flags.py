"""Which flags of `nat eval` does an evaluation get?"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of `nat eval`, and a few of ours.

    Attributes:
        endpoint: The address of the served workflow; None runs it in this process.
        endpoint_timeout_s: Time limit of a call.
        endpoint_path: The path to call; default: the end of the address, or /generate/full.
        input_key: The name of the agent's parameter; default: input_message.
        headers: Headers to send: names and values.
        dataset: A file that replaces the configuration's.
        reps: How many times each item runs.
        overrides: Paths and the values that replace those of the file.
        result_json_path: Where in the workflow's output the answer is.
        skip_workflow: Do not call the workflow; score existing outputs.
        skip_completed: Import the answers of an earlier `workflow_output.json`.
        no_evaluators: Do not score: leave out the evaluators of the file.
        keep: Continue the existing run, even if it is finished.
        max_retries: Retries of a failed call; None for the default.
        user_id: The user of the workflow's sessions; None: the toolkit's.
        settings: The values of `--set`, each as "path=value".
    """

    endpoint: str | None = None
    endpoint_timeout_s: float | None = None
    endpoint_path: str | None = None
    input_key: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    dataset: Path | None = None
    reps: int | None = None
    overrides: tuple[tuple[str, str], ...] = ()
    result_json_path: str = "$"
    skip_workflow: bool = False
    skip_completed: bool = False
    no_evaluators: bool = False
    keep: bool = False
    max_retries: int | None = None
    user_id: str | None = None
    settings: tuple[str, ...] = ()

    @property
    def continues(self) -> bool:
        """Whether to use the existing run, even if it is finished."""
        return self.skip_workflow or self.skip_completed or self.keep
