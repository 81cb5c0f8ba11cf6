"""A workflow made of a Python function or class."""

import asyncio
import functools
import importlib
import inspect
import logging
from typing import Any, cast

from limpet.arguments import members_missing, members_text
from limpet.errors import LimpetError, SetupError
from limpet.executors.threads import Threads, is_async, is_awaitable
from limpet.fingerprints.files.audit_hook import importing
from limpet.fingerprints.steps import OwnCode
from limpet.secrets.masking import by_environment
from limpet.text import one_line, text_of
from limpet.types import Item, Output
from limpet.workflows.arguments import (
    names_given,
    names_wanted,
    value_for,
    wants_input_alone,
)
from limpet.workflows.protocol import MEMBERS, Workflow

logger = logging.getLogger("limpet.workflows")


def as_workflow(thing: Any, *, version: str | None = None) -> Workflow:
    """Make a workflow of whatever the user gave.

    Args:
        thing: A workflow, a function, a class or an object that can be called, or the
            "module:name" of one of these.
        version: Declares what it is, in place of its code.

    Raises:
        LimpetError: There is nothing of that name, or it cannot be called.
        SetupError: Its module raised as it was imported.
    """
    if isinstance(thing, str):
        thing = _imported(thing)
    if isinstance(thing, type):
        return ClassWorkflow(thing, version)
    if is_workflow(thing):
        return cast("Workflow", thing)
    missing = members_missing(thing, MEMBERS)
    if callable(thing):
        return FunctionWorkflow(thing, version)
    if len(missing) < len(MEMBERS):
        raise LimpetError(
            f"workflow={thing!r}: {members_text(missing)}",
            hint="a subclass of limpet.Workflow has defaults for all but name, fingerprint, call",
        )
    raise LimpetError(
        f"workflow={thing!r}: must be a function, a class, a Workflow or 'module:name'"
    )


def is_workflow(thing: Any) -> bool:
    """Tell whether an object has all that the run asks of a workflow."""
    return not isinstance(thing, type) and not members_missing(thing, MEMBERS)


def _imported(reference: str) -> Any:
    module, _, name = reference.partition(":")
    if not module or not name:
        raise LimpetError(f"workflow={reference!r}: must look like 'module:function'")
    hint = "check the spelling, and that the module can be imported from here"
    try:
        with importing():
            found: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise LimpetError(f"workflow={reference!r}: {error}", hint=hint) from error
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {one_line(text_of(error))}"
        raise SetupError(
            f"workflow={reference!r}: importing {module} raised {why}",
            hint="the traceback says where; finished results are kept",
        ) from error
    try:
        for part in name.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        raise LimpetError(f"workflow={reference!r}: {error}", hint=hint) from error
    return found


class FunctionWorkflow(OwnCode, Workflow):
    """A function, or an object that can be called. A plain one runs in threads.

    An object may have `setup` and `teardown`, plain or async: called before the first call and
    after the last.
    """

    def __init__(self, function: Any, version: str | None = None) -> None:
        self.name = _name_of(function)
        super().__init__(function, version)
        self._function = function
        self._names = names_wanted(function)
        self._alone: bool | None = None
        self._threads = Threads()
        self._is_async = is_async(function)
        self._is_set_up = False

    def seen(self, item: Item) -> Any:
        if self._gets_input_alone(item):
            return item.input
        whole = super().seen
        return {
            name: whole(item) if name == "item" else value_for(name, item)
            for name in names_given(self._function, item)
        }

    def _gets_input_alone(self, item: Item) -> bool:
        # Rows may have columns of their own, but the first decides what the function is.
        if self._alone is None:
            self._alone = wants_input_alone(self._names, item)
        return self._alone

    async def open(self) -> None:
        self._threads = Threads()
        await _maybe(self._function, "setup")
        self._is_set_up = True

    async def call(self, item: Item) -> Output:
        if self._gets_input_alone(item):
            value = await self._run(lambda: self._function(item.input))
        else:
            names = names_given(self._function, item)
            arguments = {name: value_for(name, item) for name in names}
            value = await self._run(lambda: self._function(**arguments))
        return value if isinstance(value, Output) else Output(value)

    async def _run(self, function: Any) -> Any:
        value = function() if self._is_async else await self._threads.run(_call, function)
        return await value if is_awaitable(value) else value

    async def close(self) -> None:
        self._threads.close()
        was_set_up, self._is_set_up = self._is_set_up, False
        if was_set_up:
            await _maybe(self._function, "teardown")


class ClassWorkflow(OwnCode, Workflow):
    """A class: one instance for all items, or a fresh one for each if it says `per_item = True`.

    An instance may have `setup` and `teardown`, plain or async; what is called is its `__call__`.
    """

    def __init__(self, cls: type, version: str | None = None) -> None:
        if not any("__call__" in vars(one) for one in cls.__mro__):
            raise LimpetError(f"workflow={cls!r}: the class needs a method __call__")
        _check_no_arguments(cls)
        self.name = cls.__name__
        super().__init__(cls, version)
        self._cls = cls
        self._per_item = bool(getattr(cls, "per_item", False))
        self._shared: FunctionWorkflow | None = None
        self._has_said = False
        # For the signature alone: reading it needs no instance that was set up.
        self._template = FunctionWorkflow(functools.partial(cls.__call__, None), version)

    def seen(self, item: Item) -> Any:
        return self._template.seen(item)

    async def open(self) -> None:
        if not self._per_item:
            self._shared = await self._opened()

    async def call(self, item: Item) -> Output:
        if self._shared is not None:
            return await self._shared.call(item)
        own = await self._opened()
        try:
            return await own.call(item)
        finally:
            await self._close_after_call(own)

    async def _opened(self) -> FunctionWorkflow:
        one = FunctionWorkflow(self._cls(), self._version)
        await one.open()
        return one

    async def _close_after_call(self, one: FunctionWorkflow) -> None:
        try:
            await one.close()
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - the answer is there, and paid for
            if not self._has_said:
                why = by_environment().certain.text(f"{type(error).__name__}: {text_of(error)}")
                message = "%s.teardown failed; its answers are kept: %s (reported once)"
                logger.error(message, self.name, why)  # noqa: TRY400 - without secrets
            self._has_said = True

    async def close(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            await shared.close()


def _check_no_arguments(cls: type) -> None:
    """Refuse a class that cannot be made without arguments, before anything is spent."""
    try:
        signature = inspect.signature(cls)
    except (ValueError, TypeError):  # some do not tell; then making one will
        return
    try:
        signature.bind()
    except TypeError as error:
        raise SetupError(
            f"workflow={cls.__name__}: the class needs arguments: {error}",
            hint=f"give an instance, {cls.__name__}(…), or defaults for all of them",
        ) from error


async def _maybe(instance: Any, method: str) -> None:
    # What answers to any name, as a mock or a proxy does, has no such method of its own.
    if inspect.getattr_static(instance, method, None) is None:
        return
    if callable(found := getattr(instance, method)):
        value = found()
        if is_awaitable(value):
            await value


def _call(function: Any) -> Any:
    return function()


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)
