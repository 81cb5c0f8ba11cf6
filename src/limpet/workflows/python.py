"""A workflow made of a Python function or class."""

import functools
import importlib
from collections.abc import Mapping
from typing import Any

from limpet.errors import LimpetError
from limpet.executors.threads import Threads, is_async, is_awaitable
from limpet.journal.code import code_parts
from limpet.journal.fingerprint import digest
from limpet.types import Item, Output
from limpet.workflows.arguments import (
    names_given,
    names_wanted,
    value_for,
    wants_input_alone,
)
from limpet.workflows.protocol import Workflow


def as_workflow(thing: Any, *, version: str | None = None) -> Workflow:
    """Make a workflow of whatever the user gave.

    Args:
        thing: A workflow, a function, a class or an object that can be called, or the
            "module:name" of one of these.
        version: Declares what it is, in place of its code.

    Raises:
        LimpetError: There is nothing of that name, or it cannot be called.
    """
    if isinstance(thing, str):
        thing = _imported(thing)
    if isinstance(thing, Workflow) and not isinstance(thing, type):
        return thing
    if isinstance(thing, type):
        return ClassWorkflow(thing, version)
    if not callable(thing):
        raise LimpetError(
            f"workflow={thing!r}: must be a function, a class, a Workflow or 'module:name'"
        )
    return FunctionWorkflow(thing, version)


def _imported(reference: str) -> Any:
    module, _, name = reference.partition(":")
    if not module or not name:
        raise LimpetError(f"workflow={reference!r}: must look like 'module:function'")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise LimpetError(
            f"workflow={reference!r}: {error}",
            hint="check the spelling, and that the module can be imported from here",
        ) from error
    return found


class FunctionWorkflow:
    """A function, or an object that can be called. A plain one runs in threads."""

    def __init__(self, function: Any, version: str | None = None) -> None:
        self.name = _name_of(function)
        self.endpoint = "workflow"
        self._function = function
        self._version = version
        self._names = names_wanted(function)
        self._alone: bool | None = None
        self._threads = Threads()
        self._is_async = is_async(function)

    @functools.cached_property
    def fingerprint(self) -> Mapping[str, str]:
        """Its code, or the version that was declared."""
        if self._version is not None:
            return {"version": digest(self._version)}
        return code_parts(self._function)

    def seen(self, item: Item) -> Any:
        if self._gets_input_alone(item):
            return item.input
        return {
            name: _whole(item) if name == "item" else value_for(name, item)
            for name in names_given(self._function, item)
        }

    def _gets_input_alone(self, item: Item) -> bool:
        # Rows may have columns of their own, but the first decides what the function is.
        if self._alone is None:
            self._alone = wants_input_alone(self._names, item)
        return self._alone

    async def open(self) -> None:
        self._threads = Threads()

    async def call(self, item: Item) -> Output:
        if self._gets_input_alone(item):
            value = await self._run(lambda: self._function(item.input))
        else:
            arguments = {name: value_for(name, item) for name in names_given(self._function, item)}
            value = await self._run(lambda: self._function(**arguments))
        return value if isinstance(value, Output) else Output(value)

    async def _run(self, function: Any) -> Any:
        value = function() if self._is_async else await self._threads.run(_call, function)
        return await value if is_awaitable(value) else value

    async def close(self) -> None:
        self._threads.close()


class ClassWorkflow:
    """A class: one instance for all items, or a fresh one for each if it says `per_item = True`.

    An instance may have `async def setup(self)` and `async def teardown(self)`; what is called is
    its `__call__`.
    """

    def __init__(self, cls: type, version: str | None = None) -> None:
        if not any("__call__" in vars(one) for one in cls.__mro__):
            raise LimpetError(f"workflow={cls!r}: the class needs a method __call__")
        self.name = cls.__name__
        self.endpoint = "workflow"
        self._cls = cls
        self._version = version
        self._per_item = bool(getattr(cls, "per_item", False))
        self._shared: FunctionWorkflow | None = None
        self._instance: Any = None
        # For the signature alone: reading it needs no instance that was set up.
        self._template = FunctionWorkflow(functools.partial(cls.__call__, None), version)

    @functools.cached_property
    def fingerprint(self) -> Mapping[str, str]:
        """The code of the class, or the version that was declared."""
        if self._version is not None:
            return {"version": digest(self._version)}
        return code_parts(self._cls)

    def seen(self, item: Item) -> Any:
        return self._template.seen(item)

    async def open(self) -> None:
        if not self._per_item:
            self._instance = await self._made()
            self._shared = FunctionWorkflow(self._instance, self._version)

    async def call(self, item: Item) -> Output:
        if self._shared is not None:
            return await self._shared.call(item)
        instance = await self._made()
        own = FunctionWorkflow(instance, self._version)
        try:
            return await own.call(item)
        finally:
            await own.close()
            await _maybe(instance, "teardown")

    async def _made(self) -> Any:
        instance = self._cls()
        await _maybe(instance, "setup")
        return instance

    async def close(self) -> None:
        if self._shared is not None:
            await self._shared.close()
            await _maybe(self._instance, "teardown")
            self._shared = self._instance = None


def _whole(item: Item) -> list[Any]:
    return [item.id, item.input, item.expected, dict(item.row)]


async def _maybe(instance: Any, method: str) -> None:
    if callable(found := getattr(instance, method, None)):
        value = found()
        if is_awaitable(value):
            await value


def _call(function: Any) -> Any:
    return function()


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)
