"""How does a Python function or class become a workflow?"""

import asyncio
import functools
import importlib
import inspect
import logging
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import Any, NamedTuple, TypeVar, cast, overload
from weakref import WeakKeyDictionary

from limpet.arguments import members_missing, members_text
from limpet.errors import LimpetError, SetupError
from limpet.executors.threads import Threads, is_async, is_awaitable
from limpet.fingerprints.files.audit_hook import importing
from limpet.fingerprints.steps import DependsOn, as_declared
from limpet.secrets.masking import by_environment
from limpet.shapes import Item, Output
from limpet.text import one_line, text_of
from limpet.workflows.parameters import (
    BoundCode,
    first_by_position_only,
    first_free,
    names_given,
    names_wanted,
    takes_input_first,
    value_for,
)
from limpet.workflows.protocol import MEMBERS, Workflow

logger = logging.getLogger("limpet.workflows")


class _Declared(NamedTuple):
    """What `workflow` declares of a function or a class."""

    name: str | None = None
    version: str | None = None
    depends_on: DependsOn | None = None


_declared: WeakKeyDictionary[Any, _Declared] = WeakKeyDictionary()
Thing = TypeVar("Thing", bound=Callable[..., Any])


@overload
def workflow(thing: Thing, /) -> Thing: ...


@overload
def workflow(
    *,
    name: str | None = None,
    version: str | None = None,
    depends_on: Mapping[str, Sequence[str]] | DependsOn | None = None,
) -> Callable[[Thing], Thing]: ...


def workflow(
    thing: Any = None,
    /,
    *,
    name: str | None = None,
    version: str | None = None,
    depends_on: Mapping[str, Sequence[str]] | DependsOn | None = None,
) -> Any:
    """Declare what the answers of a function or a class depend on: `@workflow(version="2")`.

    It is returned as it is, and can be called and tested as before.

    Args:
        thing: The function or the class.
        name: Its name, which is the default name of its run; None: its own.
        version: Identifies it in place of its code: answers are kept until it changes.
        depends_on: What its code does not show: a dict with the names of `files`, of variables in
            `env`, and of `packages`.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: `depends_on` has an unknown key, or `name` is no name of a directory.
    """
    for argument, value in (("name", name), ("version", version)):
        if not isinstance(value, (str, type(None))):
            raise TypeError(f"{argument}={value!r}: must be a string or None")
        if value == "":
            raise ValueError(f"{argument}='': must not be empty")
    if name is not None and (name in (".", "..") or re.search(r"[/\\\0\r\n]", name)):
        raise ValueError(f"name={name!r}: must be usable as the name of a directory")
    declared = _Declared(name, version, as_declared(depends_on))

    def declare(thing: Any) -> Any:
        if not callable(thing):
            raise TypeError(f"workflow: {thing!r} must be a function or a class")
        try:
            _declared[thing] = declared
        except TypeError as error:  # a builtin, or an object with slots
            raise TypeError(f"workflow: {thing!r} cannot be declared: {error}") from error
        return thing

    return declare if thing is None else declare(thing)


def _declared_of(thing: Any) -> _Declared:
    """Return what is declared of a function, of a class, or of an object's class."""
    while isinstance(thing, functools.partial):
        thing = thing.func
    for known in (thing, getattr(thing, "__func__", None), type(thing)):
        with suppress(TypeError):  # it cannot be a key
            if found := _declared.get(known):
                return found
    return _Declared()


def as_workflow(
    thing: Any, *, version: str | None = None, args: Mapping[str, Any] | None = None
) -> Workflow:
    """Return a workflow for a user's object.

    Args:
        thing: A workflow, a function, a class or a callable object, or the "module:name" of one.
        version: Its declared version, which replaces its code.
        args: Arguments of a function or callable object for every call, or of a class's
            constructor. Check them with `flaws_of_arguments` first.

    Raises:
        LimpetError: The name does not exist, or is not callable.
        SetupError: Importing its module raised an exception.
    """
    if isinstance(thing, str):
        if thing.startswith(("http://", "https://")):
            raise LimpetError(  # not shown: it may contain a password
                "workflow: is an address, not a function or 'module:name'",
                hint="for a server, pass limpet.workflows.http(address), or "
                "limpet.workflows.nat(address) if it is `nat serve`",
            )
        thing = _imported(thing)
    declared = _declared_of(thing)
    depends_on = None if version is not None else declared.depends_on
    version = declared.version if version is None else version
    if isinstance(thing, type):
        return ClassWorkflow(thing, version, args, depends_on, declared.name)
    if is_workflow(thing):
        return cast("Workflow", thing)
    missing = members_missing(thing, MEMBERS)
    if callable(thing):
        return FunctionWorkflow(thing, version, args, depends_on, declared.name)
    if len(missing) < len(MEMBERS):
        raise LimpetError(
            f"workflow={thing!r}: {members_text(missing)}",
            hint="a subclass of limpet.Workflow has defaults for all but name, fingerprint, call",
        )
    raise LimpetError(
        f"workflow={thing!r}: must be a function, a class, a Workflow or 'module:name'"
    )


def is_workflow(thing: Any) -> bool:
    """Return whether an object has all members of a workflow."""
    return not isinstance(thing, type) and not members_missing(thing, MEMBERS)


def _imported(reference: str) -> Any:
    module, _, name = reference.partition(":")
    if not module or not name:
        raise LimpetError(f"workflow={reference!r}: must look like 'module:function'")
    hint = "check the spelling, and that the module can be imported from here"
    try:
        with importing():
            thing: Any = importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise LimpetError(f"workflow={reference!r}: {error}", hint=hint) from error
    except (Exception, SystemExit) as error:
        why = f"{type(error).__name__}: {one_line(text_of(error))}"
        raise SetupError(
            f"workflow={reference!r}: importing {module} raised {why}",
            hint="see the traceback; finished results are kept",
        ) from error
    try:
        for part in name.split("."):
            thing = getattr(thing, part)
    except AttributeError as error:
        raise LimpetError(f"workflow={reference!r}: {error}", hint=hint) from error
    return thing


class FunctionWorkflow(BoundCode, Workflow):
    """A function, or a callable object. Sync ones run in threads.

    An object may have `setup` and `teardown`, sync or async, called before the first call and after
    the last.
    """

    def __init__(
        self,
        function: Any,
        version: str | None = None,
        args: Mapping[str, Any] | None = None,
        depends_on: DependsOn | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name or _name_of(function)
        super().__init__(function, version, args, depends_on)
        self._function = function
        self._bound = functools.partial(function, **self._args) if args else function
        self._names = names_wanted(self._bound)
        self._unnamed = first_by_position_only(self._bound)
        self._input_name = first_free(function, self._args)
        self._takes_input: bool | None = None
        self._threads = Threads()
        self.is_plain = not is_async(function)
        self._is_set_up = False

    def seen(self, item: Item) -> Any:
        first, arguments = self._arguments(item)
        if first and first[0] is not item and not arguments:
            return first[0]
        whole = super().seen(item)
        seen = {name: whole if value is item else value for name, value in arguments.items()}
        if not first:
            return seen
        return {"input": whole if first[0] is item else first[0], "by_name": seen}

    def _arguments(self, item: Item) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return the arguments for an item: at most one by position, others by name."""
        # Rows may have different columns; the first row decides.
        if self._takes_input is None:
            self._takes_input = takes_input_first(self._names, item)
        is_by_position = self._takes_input and self._input_name is None
        names = names_given(self._bound, item, after_first=is_by_position)
        if self._takes_input:
            names = [name for name in names if name != self._input_name]
        by_name = {name: value_for(name, item) for name in names}
        if self._takes_input:
            return (item.input,), by_name
        return (value_for(self._unnamed, item),) if self._unnamed else (), by_name

    async def open(self) -> None:
        self._threads = Threads()
        await _call_if_there(self._function, "setup")
        self._is_set_up = True

    async def call(self, item: Item) -> Output:
        first, arguments = self._arguments(item)
        if first and self._input_name is not None:  # a bound argument may be before it
            first, arguments = (), {self._input_name: item.input, **arguments}
        call = self._call(*first, **arguments)
        value = await self._threads.run(operator.call, call) if self.is_plain else call()
        if is_awaitable(value):
            value = await value
        return value if isinstance(value, Output) else Output(value)

    def _call(self, *args: Any, **keywords: Any) -> functools.partial[Any]:
        # A copy for each call: one call's changes must not reach the others.
        bound = deepcopy(self._args) if self._args else {}
        return functools.partial(self._function, *args, **bound, **keywords)

    async def close(self) -> None:
        self._threads.close()
        was_set_up, self._is_set_up = self._is_set_up, False
        if was_set_up:
            await _call_if_there(self._function, "teardown")


class ClassWorkflow(BoundCode, Workflow):
    """A class: one instance for all items, or one for each with `per_item = True`.

    An instance has `__call__`, and may have `setup` and `teardown`, sync or async.
    """

    def __init__(
        self,
        cls: type,
        version: str | None = None,
        args: Mapping[str, Any] | None = None,
        depends_on: DependsOn | None = None,
        name: str | None = None,
    ) -> None:
        if not any("__call__" in vars(base) for base in cls.__mro__):
            raise LimpetError(f"the class {cls.__name__} needs a method __call__")
        super().__init__(cls, version, args, depends_on)
        _check_arguments(cls, self._args)
        self.name = name or cls.__name__
        self._cls = cls
        self._per_item = bool(getattr(cls, "per_item", False))
        self._shared: FunctionWorkflow | None = None
        self._reported = False
        # Only for its signature, which needs no instance.
        self._signature = FunctionWorkflow(functools.partial(cls.__call__, None), version)
        self.is_plain = self._signature.is_plain

    def seen(self, item: Item) -> Any:
        return self._signature.seen(item)

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
        workflow = FunctionWorkflow(self._cls(**deepcopy(self._args)), self._version)
        await workflow.open()
        return workflow

    async def _close_after_call(self, workflow: FunctionWorkflow) -> None:
        try:
            await workflow.close()
        except (asyncio.CancelledError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # noqa: BLE001 - the answer exists and is paid for
            if not self._reported:
                why = by_environment().certain.text(f"{type(error).__name__}: {text_of(error)}")
                message = "%s.teardown failed; its answers are kept: %s (reported once)"
                logger.error(message, self.name, why)  # noqa: TRY400 - without secrets
            self._reported = True

    async def close(self) -> None:
        shared, self._shared = self._shared, None
        if shared is not None:
            await shared.close()


def _check_arguments(cls: type, args: Mapping[str, Any]) -> None:
    """Raise before the run if the class needs other arguments."""
    try:
        signature = inspect.signature(cls)
    except (ValueError, TypeError):  # no signature: creating an instance will show it
        return
    try:
        signature.bind(**args)
    except TypeError as error:
        raise SetupError(
            f"workflow={cls.__name__}: the class needs arguments: {error}",
            hint=f"pass an instance, {cls.__name__}(…), or give all of them defaults; "
            "in an eval.yml: workflow: {python: …, args: {…}}",
        ) from error


async def _call_if_there(instance: Any, name: str) -> None:
    # A mock or a proxy has any attribute, but not statically.
    if inspect.getattr_static(instance, name, None) is None:
        return
    if callable(method := getattr(instance, name)):
        value = method()
        if is_awaitable(value):
            await value


def _name_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)
