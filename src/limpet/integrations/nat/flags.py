"""What does the command line say beside the file, in the words of `nat eval`?"""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags of `nat eval`, and two of ours that go with them.

    Attributes:
        endpoint: Where the workflow is served; None: it runs in this process.
        endpoint_timeout_s: How long a call there may take.
        endpoint_path: What is called there; None: what the address ends with, or /generate/full.
        input_key: The name of the agent's parameter; None: input_message.
        headers: What else is sent there: names and values.
        dataset: A file in place of the configuration's.
        reps: How often each item is asked.
        overrides: What stands in place of values of the file: path and value.
        result_json_path: Where in the workflow's output the answer is.
        skip_workflow: Call no workflow: score the outputs that are there.
        skip_completed: Take over what an earlier `workflow_output.json` holds.
        keep: Go on with the run that is there, even if it is finished.
        max_retries: How often a failed call is tried again; None: as often as is usual.
        settings: What `--set` says, each as "path=value".
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
    keep: bool = False
    max_retries: int | None = None
    settings: tuple[str, ...] = ()

    @property
    def goes_on(self) -> bool:
        """Whether what is there is meant, even if it is finished."""
        return self.skip_workflow or self.skip_completed or self.keep
