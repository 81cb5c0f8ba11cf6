"""Which workflow answers: a served one, the configuration's own, or none? And what identifies it?

The toolkit's blocks define the workflow, its functions, and its models with their settings. After
an edit of one of them, the answers on disk belong to another workflow. How the toolkit is served
and traced (`general`) changes no answer, and secrets are ignored.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from limpet import workflows
from limpet.config.environment import substitute
from limpet.errors import ConfigError, LimpetError, PermanentError
from limpet.evaluators.protocol import Evaluator
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import (
    CodeStep,
    DependsOn,
    code_of,
    declared_of,
    described_by,
    stated_by,
)
from limpet.integrations.importing import is_answer
from limpet.integrations.nat.eval_block import Structure
from limpet.integrations.nat.flags import Flags
from limpet.nat_trace import trace_of
from limpet.secrets.in_configs import without_secrets
from limpet.shapes import Item, Output
from limpet.text import one_line
from limpet.transport.parsing import parse_json
from limpet.workflows.protocol import Workflow
from limpet.workflows.request_templates import ALL, AnswerPath

_NOT_NAMED = ("eval", "general", "workflow", "optimizer")  # sections without names of parts
_NOT_COUNTED = ("eval", "general", "base", "optimizer")
_MODELS = ("llms", "embedders")
_FLAG = "--result-json-path"
_HINT = "run without --skip-workflow to get an answer"
# Endings of an address, and the path to call for each. The toolkit's own help shows an address that
# ends with /generate, to which it then adds /generate/full.
_PATHS = {
    "/generate/full": "/generate/full",
    "/generate": "/generate/full",
    "/v1/workflow/full": "/v1/workflow/full",
    "/v1/workflow": "/v1/workflow/full",
}


def served(endpoint: str, flags: Flags) -> Workflow:
    """Return the workflow that is served at an address.

    Raises:
        ConfigError: The address is not one.
    """
    base = endpoint.rstrip("/")
    end = next((path for path in _PATHS if base.endswith(path)), "")
    path = flags.endpoint_path or _PATHS.get(end, "/generate/full")
    key: Any = {} if flags.input_key is None else {"input_key": flags.input_key}
    try:
        # No time limit here: that of the attempt is enough.
        return workflows.nat(base.removesuffix(end), path=path, headers=dict(flags.headers), **key)
    except LimpetError as error:
        raise ConfigError(f"--endpoint: {error}", hint=error.hint) from error


# ---- existing answers, if no workflow is called --------------------------------------------------


class RecordedAnswers(Workflow):
    """Has only the answers that the run already has.

    Args:
        fingerprint: The fingerprint of the workflow that made them.
    """

    name = "recorded"
    endpoint = None

    def __init__(self, fingerprint: Mapping[str, str]) -> None:
        self.fingerprint = fingerprint

    def seen(self, item: Item) -> Any:
        return item.input

    async def call(self, item: Item) -> Output:
        raise PermanentError(f"{item.id}: this run has no answer for it", hint=_HINT)


class RowAnswers(RecordedAnswers):
    """Returns the answers in the rows of the dataset.

    Args:
        structure: The names of the columns.
        items: The items. Their answers are the fingerprint, so that another file of answers is
            another workflow, and `RecordedAnswers` finds these again.
    """

    def __init__(self, structure: Structure, items: Iterable[Item]) -> None:
        self._structure = structure
        super().__init__({"recorded": digest([self._recorded(item) for item in items])})

    def _recorded(self, item: Item) -> list[Any]:
        columns = self._structure
        return [item.row.get(columns.generated_answer_key), item.row.get(columns.trajectory_key)]

    async def call(self, item: Item) -> Output:
        answer, steps = self._recorded(item)
        if not is_answer(answer):
            column = self._structure.generated_answer_key
            raise PermanentError(f"{item.id}: its row has no answer in {column!r}", hint=_HINT)
        return Output(answer, trace=trace_of(steps))


# ---- what identifies it -----------------------------------------------------------------------


def counted_blocks(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the blocks that decide what the workflow answers, without secrets.

    Args:
        data: The whole configuration.
        folder: Its folder, where `file://` paths start.
    """
    return counted({key: value for key, value in data.items() if key not in _NOT_COUNTED}, folder)


def without_judges(data: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration without the models that only evaluators name.

    Args:
        data: The configuration as written.
        known: The same, with the toolkit's defaults, if the toolkit is here.
    """
    apart = (*_NOT_COUNTED, *_MODELS)
    judges = set(named_blocks(data, known, data.get("eval"), known.get("eval")))
    others = [part for key, part in (*data.items(), *known.items()) if key not in apart]
    judges -= named_blocks(data, known, *others).keys()
    models = {
        section: {name: part for name, part in parts.items() if (section, name) not in judges}
        for section, parts in data.items()
        if section in _MODELS and isinstance(parts, Mapping)
    }
    return {**data, **models}


def named_blocks(
    data: Mapping[str, Any], known: Mapping[str, Any], *blocks: Any
) -> dict[tuple[str, str], Any]:
    """Return the models, tools and so on that blocks name, directly or indirectly.

    Args:
        data: The whole configuration.
        known: The same, with the toolkit's defaults, if the toolkit is here.
        blocks: Some of its blocks. Values and keys may be names.

    Returns:
        The blocks, by section and name.
    """
    found: dict[tuple[str, str], Any] = {}
    waiting = list(blocks)
    while waiting:
        named = set(_strings(waiting.pop()))
        for section, parts in data.items():
            if section in _NOT_NAMED or not isinstance(parts, Mapping):
                continue
            for name in sorted(named & parts.keys()):
                if (section, name) not in found:
                    found[section, name] = parts[name]
                    waiting += [parts[name], (known.get(section) or {}).get(name)]
    return found


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, below in value.items():
            yield from (*_strings(key), *_strings(below))
    elif isinstance(value, list):
        for below in value:
            yield from _strings(below)


def counted(blocks: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return blocks as fingerprinted: without secrets, with the environment and files read."""
    filled = substitute(without_secrets(blocks), lambda *_: None)
    return {key: _with_files(value, folder) for key, value in filled.items()}


def _with_files(value: Any, folder: Path) -> Any:
    if isinstance(value, Mapping):
        return {key: _with_files(below, folder) for key, below in value.items()}
    if isinstance(value, list):
        return [_with_files(below, folder) for below in value]
    if isinstance(value, str) and value.startswith("file://"):
        try:
            return (folder / value.removeprefix("file://")).read_text(encoding="utf-8")
        except (OSError, ValueError):
            return str(value)  # the toolkit reports it
    return str(value) if isinstance(value, str) else value


S = TypeVar("S", Workflow, Evaluator)


class AroundStep(CodeStep, Generic[S]):
    """A step around another one, with its identity.

    Args:
        inner: The other one.
    """

    def __init__(self, inner: S) -> None:
        self.name = inner.name
        self.endpoint = inner.endpoint
        self._inner: S = inner

    if TYPE_CHECKING:  # the protocols declare a plain attribute
        secrets: Iterable[str]
    else:

        @property
        def secrets(self) -> Iterable[str]:
            return self._inner.secrets

    @property
    def code(self) -> Mapping[str, Any]:
        return code_of(self._inner)

    @property
    def depends_on(self) -> DependsOn | None:
        return declared_of(self._inner)

    @property
    def stated(self) -> Mapping[str, str]:
        return stated_by(self._inner)

    @property
    def described(self) -> Mapping[str, Any]:
        return described_by(self._inner)

    async def open(self) -> None:
        await self._inner.open()

    async def close(self) -> None:
        await self._inner.close()


class ConfiguredWorkflow(AroundStep[Workflow], Workflow):
    """A workflow whose identity includes the configuration.

    Args:
        inner: The workflow that answers.
        blocks: The counted blocks of the configuration.
        result_json_path: The JSONPath of the answer in its output.

    Raises:
        ConfigError: `result_json_path` is not a JSONPath.
    """

    def __init__(self, inner: Workflow, blocks: Mapping[str, Any], result_json_path: str) -> None:
        super().__init__(inner)
        self._blocks = dict(blocks)
        try:
            self._path = AnswerPath(result_json_path)
        except LimpetError as error:
            text = f"{_FLAG} {one_line(result_json_path)}: not a JSONPath"
            raise ConfigError(text, hint="for example $.output") from error
        if result_json_path != ALL:
            self._blocks["result_json_path"] = result_json_path

    @property
    def stated(self) -> Mapping[str, str]:
        return {**super().stated, **{name: digest(block) for name, block in self._blocks.items()}}

    @property
    def described(self) -> Mapping[str, Any]:
        return {**super().described, **self._blocks}

    def seen(self, item: Item) -> Any:
        return self._inner.seen(item)

    async def open(self) -> None:
        self._inner.answered_before = self.answered_before
        await super().open()

    async def call(self, item: Item) -> Output:
        output = await self._inner.call(item)
        if self._path.path == ALL:
            return output
        value = output.value
        if isinstance(value, str):
            try:
                value = parse_json(value.encode())
            except ValueError as error:
                shown = one_line(output.value)
                raise PermanentError(f"{_FLAG}: the answer is {error}: {shown}") from None
        return replace(output, value=self._path.find(value, _FLAG, one_line))
