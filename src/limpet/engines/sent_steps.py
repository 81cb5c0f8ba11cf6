"""How does a step reach another process, and if it cannot, why?

By pickle: a function or a class travels as its module and its name, an object as its class and its
attributes. A worker imports the modules, and gets the same code and arguments.

An object that pickle cannot send, because it holds a lock or has no name of its own, is looked up
in the user's modules: `AGENT = Agent()` at the top of a module is `AGENT` in a worker, too. If it
has no name at all, the error says what it is and where in the step.

A worker imports modules from disk; the driver may have changed one in memory since, or its file may
have changed. So a worker compares the identity of the step it found with the driver's. State that
earlier runs of the driver left behind (a counter, a cache) is ignored: in a worker, a module has
its initial value, and an object that was sent has its latest.

A script's own functions belong to its `__main__`. A worker runs the script again under another
name, as `multiprocessing` does, so its `if __name__ == "__main__":` block does not run there.
"""

import contextlib
import importlib
import io
import pickle
import re
import runpy
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from limpet.errors import LimpetError, SetupError
from limpet.evaluators.functions import FunctionEvaluator
from limpet.fingerprints.identity import parts_for_worker
from limpet.fingerprints.steps import Inspection, code_of, declared_of, stated_by
from limpet.fingerprints.walk.ownership import is_users_file
from limpet.fingerprints.walk.script_effects import BEFORE_RUN
from limpet.text import one_line, text_of

_DEEPEST = 5
_MOST_LOOKED_AT = 200
_MOST_NAMED = 5
_OF_PROCESS = re.compile(r"sys\b")  # its streams, for example, differ between processes
_OF_SCRIPT = re.compile(r"(module )?__main__\b")
_PLAIN = frozenset({str, int, float, bool, type(None), bytes, list, dict, tuple, set})
Names = Mapping[int, tuple[str, str]]
"""The module and name of each object, by its id."""
_MOVE = (
    "define it at the top level of a module, and pass its dependencies as arguments of a class "
    "with __call__; or leave the engine out for this step"
)


AllowedFingerprints = Mapping[str, tuple[str | None, ...]]
"""The fingerprints that each part may have in a worker; None: the part may be missing."""


class MainModule(NamedTuple):
    """The script this process runs, and how to run it again.

    Attributes:
        name: Its module name, if it was started as a module (`python -m`).
        path: Its file otherwise.
    """

    name: str | None
    path: str | None


class SentStep(NamedTuple):
    """A step as sent to a worker.

    Attributes:
        name: Its name: `workflow`, or an evaluator's.
        who: Its name in messages.
        step: The workflow or the evaluator, pickled.
        main: The script that defines it, or whose effects its results may depend on; None: a
            worker needs no script.
        identity: The fingerprints that each part of its identity may have.
        is_plain: Whether it calls a plain function, of which a worker runs one at a time.
    """

    name: str
    who: str
    step: bytes
    main: MainModule | None
    identity: AllowedFingerprints
    is_plain: bool = False


def sent_step(name: str, who: str, step: Any, *, inherits: bool = False) -> SentStep:
    """Return a step in the form in which it is sent.

    Args:
        name: Its name.
        who: Its name in messages.
        step: The workflow or the evaluator.
        inherits: Whether a worker has the environment and the working directory of this process.

    Raises:
        LimpetError: It cannot be sent. The message names the part that cannot, the hint what to do.
    """
    identity = Inspection(step).identity
    initial, found = identity.parts, identity.found
    there = found
    if inherits and any(part.startswith(BEFORE_RUN) for part in found):
        declared = declared_of(step)
        there = {**stated_by(step), **({} if declared is None else declared.identity().parts)}
        for prefix, thing in code_of(step).items():
            parts = parts_for_worker(thing)
            there |= {prefix + name: fingerprint for name, fingerprint in parts.items()}
    allowed = {
        part: (initial.get(part), found.get(part), there.get(part)) for part in {*initial, *found}
    }
    pickled, main = pickled_step(who, step)
    if main is None and any(map(_OF_SCRIPT.match, allowed)):  # the script affects the step
        with contextlib.suppress(_NoScriptError):
            main = _main_module("__main__")
    return SentStep(name, who, pickled, main, allowed, is_plain(step))


def is_plain(step: Any) -> bool:
    """Return whether a workflow or an evaluator calls a plain function, in threads."""
    return getattr(step, "is_plain", False) is True


def pickled_step(who: str, step: Any) -> tuple[bytes, MainModule | None]:
    """Return a step as bytes, and the script that defines it, if any.

    Raises:
        LimpetError: As `sent_step`.
    """
    try:
        return _pickled(step, {})
    except _NoScriptError:
        raise _not_here(who, step) from None
    except Exception:  # noqa: BLE001 - tried again
        names = _names_in_modules()
    try:
        return _pickled(step, names)
    except _NoScriptError:
        raise _not_here(who, step) from None
    except Exception as error:
        what = _culprit(step, (), names) or one_line(text_of(error))
        raise LimpetError(f"{who} cannot be sent to another process: {what}", hint=_MOVE) from error


def _pickled(step: Any, names: Names) -> tuple[bytes, MainModule | None]:
    into = io.BytesIO()
    pickler = _StepPickler(into, names)
    pickler.dump(step)
    return into.getvalue(), pickler.main


def check_same(sent: SentStep, step: Any) -> None:
    """Check that the step a worker found is the driver's.

    Raises:
        SetupError: It is not. The message names the parts that differ.
    """
    here, there = Inspection(step).identity.found, sent.identity
    names = {name for name in (*here, *there) if not _OF_PROCESS.match(name)}
    differs = sorted(name for name in names if here.get(name) not in there.get(name, (None,)))
    if done := [name for name in differs if name.startswith(BEFORE_RUN)]:
        location = done[0].removeprefix(BEFORE_RUN).partition(":")[0]
        used = ", ".join(one_line(name) for name in differs[:_MOST_NAMED] if name not in done)
        raise SetupError(
            f"{sent.who} may differ in a worker: what the script does before the run{location} may "
            f"change what it returns{f' ({used})' if used else ''}, and a worker does not do it",
            hint='do it at the top level of the script, outside `if __name__ == "__main__":`, so '
            "each worker does it too; or in `setup`; or leave the engine out for this step",
        )
    if differs:
        shown = ", ".join(map(one_line, differs[:_MOST_NAMED]))
        raise SetupError(
            f"{sent.who} differs in a worker: {shown} changed in this process or on disk after the "
            "import",
            hint="a worker imports the module again: set the value in the module, in `setup`, or "
            "as an argument; or leave the engine out for this step",
        )


def _not_here(who: str, step: Any) -> LimpetError:
    name = getattr(step, "name", who)
    return LimpetError(
        f"{who}: {one_line(name)} is defined in a notebook or an interactive session, which "
        "another process cannot import",
        hint="move it to a module and import it from there; or leave the engine out",
    )


def received_step(sent: SentStep) -> Any:
    """Return the step that was sent, in a worker. Imports its modules.

    Raises:
        SetupError: A module lacks a name in this process.
    """
    try:
        return pickle.loads(sent.step)  # noqa: S301 - the driver's own
    except _NotThereError as error:
        where = "the script" if error.module == "__main__" else error.module
        raise SetupError(
            f"{sent.who} cannot be loaded in a worker: it is sent by name, and "
            f"{one_line(error.name)} is not defined when a worker imports {where}",
            hint='names set under `if __name__ == "__main__":`, or later, exist only in your own '
            f"process. {_MOVE.capitalize()}",
        ) from None


class _NoScriptError(Exception):
    pass


class _NotThereError(Exception):
    def __init__(self, module: str, name: str) -> None:
        super().__init__(module, name)
        self.module = module
        self.name = name


class _StepPickler(pickle.Pickler):
    def __init__(self, into: io.BytesIO, names: Names) -> None:
        super().__init__(into, protocol=5)
        self._names = names
        self.main: MainModule | None = None

    def reducer_override(self, thing: Any) -> Any:
        if (found := self._names.get(id(thing))) is not None:
            if found[0] == "__main__":
                self.main = _main_module(found[1])
            return _attribute_of, found
        if isinstance(thing, (FunctionType, type)):
            if thing.__module__ == "__main__" and "<locals>" not in thing.__qualname__:
                self.main = _main_module(thing.__qualname__)
            if isinstance(thing, FunctionType) and (held := _holder(thing)) is not None:
                return held
        elif type(thing).__module__ == "__main__":
            self.main = _main_module(type(thing).__qualname__)
        return NotImplemented


def _main_module(name: str) -> MainModule:
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name:
        return MainModule(spec.name, None)
    path = getattr(main, "__file__", None)
    if not path or not Path(path).is_file() or hasattr(sys.modules.get("IPython"), "ps1"):
        raise _NoScriptError(one_line(name))
    return MainModule(None, str(Path(path).absolute()))


def _holder(function: FunctionType) -> Any:
    """Return how to find a function behind a decorator that took its name.

    None: it can be found by its name, or not at all.
    """
    found = _named(function.__module__, function.__qualname__)
    if found is None or found is function:
        return None
    for depth, inside in enumerate(_within(found)):
        if inside is function:
            return _inside, (function.__module__, function.__qualname__, depth)
    return None


def _named(module: str, qualified: str) -> Any:
    thing: Any = sys.modules.get(module)
    for name in qualified.split("."):
        thing = getattr(thing, name, None)
    return thing


def _within(thing: Any) -> Iterator[Any]:
    """Yield the functions inside a decorated one, from the outside in."""
    for _ in range(_DEEPEST):
        held = vars(thing).get("_function") if isinstance(thing, FunctionEvaluator) else None
        thing = held or getattr(thing, "__wrapped__", None) or getattr(thing, "func", None)
        if thing is None:
            return
        yield thing


def _names_in_modules() -> Names:
    """Return the module and name of each object in the user's modules that is not plain."""
    names: dict[int, tuple[str, str]] = {}
    for module_name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if isinstance(module, ModuleType) and file and is_users_file(file):
            for name, value in list(vars(module).items()):
                is_own = isinstance(value, type) or type(value) in _PLAIN
                if not is_own and not isinstance(value, ModuleType) and not _has_own_name(value):
                    names.setdefault(id(value), (module_name, name))
    return names


def _has_own_name(value: Any) -> bool:
    is_function = isinstance(value, FunctionType)
    return is_function and _named(value.__module__, value.__qualname__) is value


def _attribute_of(module: str, name: str) -> Any:
    """Return an attribute of a module, in a worker."""
    found = importlib.import_module(module)
    if not hasattr(found, name):
        raise _NotThereError(module, name)
    return getattr(found, name)


def _inside(module: str, qualified: str, depth: int) -> Any:
    """Return a function inside a decorated one, in a worker."""
    __import__(module)
    return list(_within(_named(module, qualified)))[depth]


# ---- which part cannot be sent? -----------------------------------------------------------------


def _culprit(thing: Any, path: tuple[str, ...], names: Names) -> str | None:
    """Return in words which part of a step cannot be sent; None if it is not found."""
    if len(path) >= _DEEPEST or _can_be_sent(thing, names):
        return None
    for name, part in list(_parts(thing))[:_MOST_LOOKED_AT]:
        if (found := _culprit(part, (*path, name), names)) is not None:
            return found
    return _described(thing, path)


def _can_be_sent(thing: Any, names: Names) -> bool:
    try:
        _pickled(thing, names)
    except Exception:  # noqa: BLE001 - any reason is one
        return False
    return True


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, dict):
        yield from ((f"[{one_line(repr(key))}]", part) for key, part in thing.items())
    elif isinstance(thing, (list, tuple, set)):
        yield from ((f"[{number}]", part) for number, part in enumerate(thing))
    elif isinstance(thing, (FunctionType, type)):
        return
    elif isinstance(inner := getattr(thing, "__dict__", None), dict):
        yield from ((f".{name}", part) for name, part in inner.items())


def _described(thing: Any, path: tuple[str, ...]) -> str:
    where = "".join(part for part in path if not part.startswith("._")).lstrip(".")
    where = f" (in {where})" if where else ""
    name = getattr(thing, "__qualname__", None)
    if isinstance(thing, FunctionType) and name is not None:
        if thing.__name__ == "<lambda>":
            return f"a lambda has no name{where}"
        if "<locals>" in name:
            outer, _, inner = name.rpartition(".<locals>.")
            return f"{inner} is defined inside the function {outer.replace('.<locals>', '')}{where}"
        return f"the name {thing.__module__}.{name} belongs to another object{where}"
    if isinstance(thing, type) and name is not None:
        return f"the class {name} cannot be found by its name{where}"
    return f"an object of type {type(thing).__module__}.{type(thing).__qualname__}{where}"


# ---- How are a script's functions found by name in a worker? It runs the script again. ----------

_NAME = "__mp_main__"  # as multiprocessing calls it
_importing: list[MainModule] = []


def import_main(main: MainModule) -> None:
    """Run the script, unless it already ran, and install it as `__main__`."""
    if _NAME in sys.modules:
        return
    module = ModuleType(_NAME)
    _importing.append(main)
    try:
        if main.name is not None:
            names = runpy.run_module(main.name, run_name=_NAME, alter_sys=True)
        else:
            assert main.path is not None
            names = runpy.run_path(main.path, run_name=_NAME)
    finally:
        _importing.clear()
    module.__dict__.update(names)
    sys.modules["__main__"] = sys.modules[_NAME] = module


def refuse_while_importing() -> None:
    """Raise if a worker is running the user's script: it must not start the evaluation again."""
    if _importing:
        raise LimpetError(
            "the script starts an evaluation when a worker imports it",
            hint='start it under: if __name__ == "__main__":',
        )
