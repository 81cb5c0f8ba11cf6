"""A workflow as the configuration and the command line describe it."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from limpet.errors import ConfigError, LimpetError, PermanentError
from limpet.fingerprints.declared import DependsOn
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import CodeStep, code_of, declared_of, described_by, stated_by
from limpet.integrations.nat.in_process import InProcessWorkflow
from limpet.text import one_line
from limpet.transport.parsing import parse_json
from limpet.types import Item, Output
from limpet.workflows.answer_path import ALL, AnswerPath
from limpet.workflows.protocol import Workflow

_FLAG = "--result-json-path"


class ConfiguredWorkflow(CodeStep, Workflow):
    """Another workflow, which the configuration is part of.

    Args:
        inner: What answers.
        blocks: What counts of the configuration's blocks.
        result_json_path: Where in its answer the answer is.

    Raises:
        ConfigError: That is no path.
    """

    def __init__(self, inner: Workflow, blocks: Mapping[str, Any], result_json_path: str) -> None:
        self.name = inner.name
        self.endpoint = inner.endpoint
        self._inner = inner
        self._blocks = dict(blocks)
        try:
            self._path = AnswerPath(result_json_path)
        except LimpetError as error:
            text = f"{_FLAG} {one_line(result_json_path)}: is no JSONPath"
            raise ConfigError(text, hint="such as $.output") from error
        if result_json_path != ALL:
            self._blocks["result_json_path"] = result_json_path

    @property
    def secrets(self) -> Iterable[str]:  # type: ignore[override]  # it is only read
        """What the inner one declares to be secret."""
        return self._inner.secrets

    @property
    def code(self) -> Mapping[str, Any]:
        return code_of(self._inner)

    @property
    def depends_on(self) -> DependsOn | None:
        return declared_of(self._inner)

    @property
    def stated(self) -> Mapping[str, str]:
        """What the inner one's answers depend on besides code, and the configuration."""
        return {**stated_by(self._inner), **{n: digest(one) for n, one in self._blocks.items()}}

    @property
    def described(self) -> Mapping[str, Any]:
        return {**described_by(self._inner), **self._blocks}

    def seen(self, item: Item) -> Any:
        return self._inner.seen(item)

    def check(self) -> None:
        """Find out what can be found out without opening it. Raises as `open` does."""
        if isinstance(self._inner, InProcessWorkflow):
            self._inner.check()

    async def open(self) -> None:
        self._inner.answered_before = self.answered_before
        await self._inner.open()

    async def close(self) -> None:
        await self._inner.close()

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
