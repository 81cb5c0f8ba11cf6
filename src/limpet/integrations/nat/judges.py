"""How do the toolkit's evaluators get models that do not hide a refusal?

Their retries are off, and a refusal passes through whatever catches exceptions.
"""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from limpet.evaluators.libraries.nat import ONE_ATTEMPT
from limpet.evaluators.libraries.refusals import outspoken

_NO_RETRIES: Mapping[str, Any] = {
    "do_auto_retry": False,
    "num_retries": 1,  # attempts, with the first one
    "max_retries": 0,
    "llm_retry_control_params": ONE_ATTEMPT,
}


class ImpatientBuilder:
    """The toolkit's builder, as evaluators see it: its models do not retry by themselves.

    Limpet retries, and a refusal that somebody hides would not slow it down.
    """

    def __init__(self, builder: Any) -> None:
        self._builder = builder
        self._added: set[tuple[str, str]] = set()
        self._adding = asyncio.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._builder, name)

    async def get_llm(self, llm_name: str, wrapper_type: Any) -> Any:
        name = await self._add("llm", llm_name)
        return outspoken(await self._builder.get_llm(name, wrapper_type))

    async def get_llms(self, llm_names: Iterable[str], wrapper_type: Any) -> list[Any]:
        return [await self.get_llm(name, wrapper_type) for name in llm_names]

    async def get_embedder(self, embedder_name: str, wrapper_type: Any) -> Any:
        name = await self._add("embedder", embedder_name)
        return outspoken(await self._builder.get_embedder(name, wrapper_type))

    async def get_embedders(self, embedder_names: Iterable[str], wrapper_type: Any) -> list[Any]:
        return [await self.get_embedder(name, wrapper_type) for name in embedder_names]

    async def _add(self, kind: str, given: str) -> str:
        """Add a model without retries to the builder, and return its name."""
        name = f"{given} without retries"
        async with self._adding:
            if (kind, name) not in self._added:
                config = getattr(self._builder, f"get_{kind}_config")(given)
                await getattr(self._builder, f"add_{kind}")(name, without_retries(config))
                self._added.add((kind, name))
        return name


def without_retries(config: Any) -> Any:
    """Return a copy of a block of the toolkit's that makes no retries."""
    fields = type(config).model_fields
    update = {name: value for name, value in _NO_RETRIES.items() if name in fields}
    return config.model_copy(update=update)
