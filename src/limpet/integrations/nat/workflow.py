"""Which workflow answers: a served one, the configuration's own, or none?"""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet import workflows
from limpet.errors import ConfigError, LimpetError
from limpet.fingerprints.keys import digest
from limpet.integrations.nat import run_directory as room
from limpet.integrations.nat.configured import ConfiguredWorkflow
from limpet.integrations.nat.existing_answers import KeptAnswers, RowAnswers
from limpet.integrations.nat.flags import Flags
from limpet.integrations.nat.identity import counted_blocks
from limpet.integrations.nat.in_process import InProcessWorkflow, check_installed
from limpet.text import one_line
from limpet.types import Item
from limpet.workflows.protocol import Workflow

if TYPE_CHECKING:
    from limpet.integrations.nat.config import NatConfig

# What an address may end with, and what is called then. The toolkit's own help shows one with
# /generate, to which it then adds /generate/full.
_PATHS = {
    "/generate/full": "/generate/full",
    "/generate": "/generate/full",
    "/v1/workflow/full": "/v1/workflow/full",
    "/v1/workflow": "/v1/workflow/full",
}


def workflow_of(config: "NatConfig", items: Iterable[Item]) -> Workflow:
    """Return the workflow of an evaluation.

    Args:
        config: The configuration.
        items: The items of its dataset.

    Raises:
        ConfigError: It cannot be called as it is asked for.
    """
    flags = config.flags
    if flags.skip_workflow:
        return _recorded(config, items)
    blocks = counted_blocks(config.tree.data, config.path.parent)
    inner = _own(config) if flags.endpoint is None else _served(flags.endpoint, flags)
    return ConfiguredWorkflow(inner, blocks, flags.result_json_path)


def _served(endpoint: str, flags: Flags) -> Workflow:
    base = endpoint.rstrip("/")
    ends = next((one for one in _PATHS if base.endswith(one)), "")
    path = flags.endpoint_path or _PATHS.get(ends, "/generate/full")
    told: Any = {} if flags.input_key is None else {"input_key": flags.input_key}
    try:
        # Its time limit is that of the attempt: one clock is enough.
        return workflows.nat(
            base.removesuffix(ends), path=path, headers=dict(flags.headers), **told
        )
    except LimpetError as error:
        raise ConfigError(f"--endpoint: {error}", hint=error.hint) from error


def _own(config: "NatConfig") -> Workflow:
    check_installed(one_line(config.tree.shown))
    data = config.tree.data
    if "workflow" not in data:
        raise ConfigError(
            f"{one_line(config.tree.shown)}: has no workflow block, and no --endpoint is given",
            hint="serve the workflow and give its address: --endpoint http://localhost:8000",
        )
    told = [path for path, _ in config.flags.overrides]
    told += [text.partition("=")[0].strip() for text in config.flags.settings]
    overrides = tuple((path, _at(data, path)) for path in told)
    return InProcessWorkflow(
        config.path,
        overrides,
        name=config.name,
        per_input_user_id=config.wanted.per_input_user_id,
    )


def _at(data: Any, path: str) -> Any:
    for part in path.split("."):
        data = data[part.strip()]
    return data


def _recorded(config: "NatConfig", items: Iterable[Item]) -> Workflow:
    run: Path = config.run
    if config.flags.dataset is None:
        functions = room.run_file(run).functions
        if functions and room.has_answers(run):
            return KeptAnswers(next(reversed(functions.values())))
        if room.is_foreign(run):
            return KeptAnswers({"recorded": digest(room.OUTPUT)})
    return RowAnswers(config.wanted.dataset.structure, items)
