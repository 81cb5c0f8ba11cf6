"""What do the results of a function depend on, as far as its process can show?

The problem. "It never mixes results of different code" needs to know what counts as the code of a
workflow: not only the text of one function, but all that the function can reach.

What does not work. Reading names out of the source and comparing what they stand for by name: two
instances of one class, two closures of one factory look the same, and whatever is skipped because
it could not be read is an edit that nobody sees.

What we do. We walk the objects as they are in memory, from the workflow on: code, closures,
defaults, every global and attribute that the code names, classes with their whole ancestry,
instances by class and state, containers by their elements. Each object is met once, by its own
identity. What cannot be followed (a computed name, a module that is handed around) counts as a
whole. What has no stable form counts by its class, and is named in `left_out`.

Installed packages count by name: `openai.AsyncOpenAI` is that, whatever is in it. Their objects
count by class and state, to a bounded depth; the user's own functions in them are followed.

Still open. What C code holds and does not show.
"""

import contextlib
import functools
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from types import BuiltinFunctionType, FunctionType, MethodType, UnionType
from typing import Any

from limpet.fingerprints.code.source import Sources, text_of_file
from limpet.fingerprints.code.summary import CodeSummary
from limpet.fingerprints.walk import (
    classes,
    environment,
    functions,
    import_effects,
    objects,
    scopes,
    script_effects,
)
from limpet.fingerprints.walk import secret_values as hidden
from limpet.fingerprints.walk.introspection import Introspection
from limpet.fingerprints.walk.ownership import full_name, is_module, is_users, is_users_module
from limpet.fingerprints.walk.result import WalkResult
from limpet.fingerprints.walk.safe_access import is_a, module_name, names_of, plain_name, text_at
from limpet.fingerprints.walk.side_effects import SideEffects
from limpet.fingerprints.walk.values import UNKNOWN, Texts, form_of_scalar

_DEEPEST = 60
_LONGEST_PATH = 160
_SHORTEST_SECRET = 8


class Walk:
    """One look at an object and all that it reaches.

    Args:
        is_secret: Tells whether a name is a secret's.
        secrets: Values that are secrets.

    Attributes:
        found: What was found so far.
        texts: How texts are written.
        by_chance: By the identity of an object: its attributes and keys that differ at every start.
        readings: What the code that was met looks at, beyond the things that it names.
        sources: The files of code.
        judge: Tells which code changes what is not its own.
        reached: Modules of which something counts.
        of_python: Names that code uses and no module has: Python's own, or not there yet.
        volatile_in_classes: Which attributes of which classes differ at every start.
        held: The objects that may change and that the value in question is made of.
    """

    def __init__(
        self,
        is_secret: Callable[[str], bool] = lambda _: False,
        secrets: frozenset[str] = frozenset(),
    ) -> None:
        self.result = WalkResult()
        self.is_secret = functools.cache(is_secret)
        self._secrets = secrets | {
            value
            for name, value in os.environ.items()
            if len(value) >= _SHORTEST_SECRET and is_secret(name)
        }
        self.texts = Texts((), self._secrets)
        self.volatile: dict[int, set[str]] = {}
        self.introspection = Introspection()
        self.sources = Sources()
        self.side_effects = SideEffects(self)
        self.reached: set[str] = set()
        self.of_python: set[str] = set()
        self.volatile_in_classes: dict[int, dict[str, bool]] = {}
        self.room = objects.Room()
        self.held: list[Any] = []
        self._home = ""
        self._labels: dict[int, str] = {}
        self._alive: list[Any] = []  # so that no id is used again
        self._taken: dict[str, int] = {}
        self._todo: deque[Callable[[], None]] = deque()
        self._deep = 0

    def look(self, root: Any) -> WalkResult:
        """Return what counts for an object: a function, a class, an instance."""
        self._home = module_name(root)
        home = sys.modules.get(self._home)
        file = names_of(home).get("__file__") if is_module(home) else None
        folder = os.path.dirname(os.path.abspath(file or "."))  # noqa: PTH100, PTH120 - text in, text out
        self.texts = Texts((folder, os.getcwd()), self._secrets)  # noqa: PTH109
        self.result.forms["function"] = ["function", full_name(root)]
        path = plain_name(root)
        form = self.form(path, root, documented=False, named=True)
        if form != ["see", path]:
            self.keep(path, form)
        script_effects.reach_script(self)
        while self._todo:
            self._todo.popleft()()
            if not self._todo:
                self.introspection.finish(self)
        self.result.modules = frozenset(self.reached)
        self.result.met = frozenset(self._labels)
        return self.result

    # ---- what counts ----------------------------------------------------------------------------

    def use(self, path: str, value: Any, *, documented: bool = True, holder: Any = None) -> None:
        """Let a value count under a name of its own.

        Args:
            path: Its name for people.
            value: Anything.
            documented: Whether somebody may read its docstring and its hints.
            holder: Whose attribute it is; None: a module's.
        """
        if not self._deep:
            self.room = objects.Room()
        # `answer(api_key)` is a default.
        name = path[path.rfind("(") + 1 : -1] if path[-1:] == ")" else path.rpartition(".")[2]
        outer, self.held = self.held, []
        if self.is_secret(name):
            form = hidden.form_behind_secret(self, path, value)
        else:
            form = self.form(path, value, documented=documented, named=True)
        held, self.held = self.held, outer
        if form is not hidden.NOTHING and form != ["see", path]:
            self.result.holders.setdefault(self.keep(path, form), (holder, *held))

    def keep(self, path: str, form: Any) -> str:
        """Let a form count; a second one of the same name, under another name: return the name."""
        count, place = 1, path
        while (known := self.result.forms.setdefault(place, form)) is not form and known != form:
            count += 1
            place = f"{path} ({count})"
        return place

    def leave_out(self, path: str, why: str) -> None:
        """Name what does not count."""
        self.result.left_out[path] = why

    def leave_out_volatile(self, path: str) -> None:
        """Name what differs at every start."""
        self.leave_out(path, "differs at every start: counts by its source")

    def use_variable(self, name: str) -> None:
        """Let a variable of the environment count."""
        if environment.is_of_the_machine(name) or self.is_secret(name):
            self.leave_out(f"variable {name}", "a secret, or of the machine")
        else:
            value = os.environ.get(name)
            self.result.forms[f"variable {name}"] = None if value is None else self.texts.of(value)

    # ---- values ---------------------------------------------------------------------------------

    def form(
        self, path: str, value: Any, *, documented: bool = True, named: bool = False, depth: int = 0
    ) -> Any:
        """Return the form of a value; what has one of its own is named in it.

        Args:
            path: Its name for people.
            value: Anything.
            documented: Whether somebody may read its docstring and its hints.
            named: Whether its attributes count under names of their own.
            depth: How deep in objects of libraries it lies.
        """
        form = form_of_scalar(value, self.texts)
        if form is not UNKNOWN:
            return form
        known = self._labels.get(id(value))
        if known is not None:
            return ["see", known]
        kind = type(value)
        if environment.is_handed(value):
            self.introspection.environment.roundabout = True
        if kind is FunctionType:
            return self._later(path, value, functions.read_function, documented=documented)
        if issubclass(kind, type):
            return self._later(path, value, classes.read_class)
        if is_module(value):
            return scopes.use_module(self, value)
        if kind is BuiltinFunctionType:
            return self._builtin(path, value)
        if self._deep > _DEEPEST:  # no deeper than Python allows
            label = self.label(path, value)
            self._todo.append(functools.partial(self._deeper, label, value, depth))
            return ["see", label]
        self.label(path, value)
        self._deep += 1
        try:
            return self._surely(path, value, named=named and self._deep <= 3, depth=depth)  # noqa: PLR2004
        finally:
            self._deep -= 1

    def _deeper(self, label: str, value: Any, depth: int) -> None:
        self.keep(label, self._surely(label, value, named=False, depth=depth))

    def _surely(self, path: str, value: Any, *, named: bool, depth: int) -> Any:
        try:
            return self._compound(path, value, named=named, depth=depth)
        except RuntimeError:  # a thread changed what was being read: the look begins anew
            raise
        except Exception as error:  # noqa: BLE001 - no object of a stranger's ends a run
            name = full_name(type(value))
            self.leave_out(
                path, f"{type(error).__name__} on reading it: counts by its class, {name}"
            )
            return ["a", name]

    def _compound(self, path: str, value: Any, *, named: bool, depth: int) -> Any:
        kind = type(value)
        if is_a(value, *functions.GENERATORS):
            return functions.form_of_generator(self, path, value)
        if kind is MethodType:
            inner = {"__func__": value.__func__, "__self__": value.__self__}
        elif kind is functools.partial:
            return self._partial(path, value, depth)
        elif kind is staticmethod or kind is classmethod:
            inner = {"__func__": value.__func__}
        elif kind is property:
            inner = {"fget": value.fget, "fset": value.fset, "fdel": value.fdel}
        elif kind is UnionType:
            inner = {"args": value.__args__}
        elif kind is ContextVar:
            inner = {"name": value.name}
            with contextlib.suppress(LookupError):
                inner["value"] = value.get()
        else:
            return objects.form_of_object(self, path, value, named=named, depth=depth)
        return [
            kind.__name__,
            *(self.form(f"{path}.{name}", part, depth=depth) for name, part in inner.items()),
        ]

    def _partial(self, path: str, value: Any, depth: int) -> Any:
        func = self.form(f"{path}.func", value.func, depth=depth)
        args = self.form(f"{path}.args", value.args, depth=depth)
        keywords = value.keywords  # made anew with each partial: it holds nothing
        before = len(self.held)
        form = ["partial", func, args, self.form(f"{path}.keywords", keywords, depth=depth)]
        self.held[before:] = [held for held in self.held[before:] if held is not keywords]
        return form

    def _builtin(self, path: str, value: Any) -> Any:
        bound = value.__self__
        if bound is None or is_module(bound):
            return ["library", full_name(value)]
        return ["method", value.__name__, self.form(f"{path}.__self__", bound)]

    # ---- what has a part of its own -------------------------------------------------------------

    def label(self, path: str, value: Any) -> str:
        """Name an object for good; return the name."""
        if len(path) > _LONGEST_PATH:
            path = path[: _LONGEST_PATH - 40] + "…"
        count = self._taken[path] = self._taken.get(path, 0) + 1
        label = path if count == 1 else f"{path} ({count})"
        if count > 1 and label in self._taken:
            return self.label(label, value)
        self._taken.setdefault(label, 1)
        self._labels[id(value)] = label
        self._alive.append(value)
        return label

    def _later(self, path: str, value: Any, read: Callable[..., None], **how: Any) -> Any:
        own = self.short(module_name(value), text_at(value, "__qualname__") or path)
        if "<lambda>" in own or "<locals>" in own:
            own = path
        label = self.label(own, value)
        if not is_users(value) and type(value) is not FunctionType:
            return ["library", full_name(value)]
        self.defer(read, self, label, value, **how)
        return ["see", label]

    def defer(self, do: Callable[..., Any], *given: Any, **how: Any) -> None:
        """Do something when what is going on is done."""
        self._todo.append(functools.partial(do, *given, **how))

    def follow(
        self, label: str, summary: CodeSummary, module: str, scope: Mapping[str, Any], file: str
    ) -> None:
        """Go on with all that a piece of code names."""
        self.introspection.note(summary)
        scopes.follow(self, label, summary, module, scope, file)

    @functools.cached_property
    def running(self) -> dict[int, int]:
        """The line of each module that is still being run, by the identity of its scope."""
        return import_effects.lines_that_run()

    @functools.cached_property
    def users_texts(self) -> list[str]:
        """The text of every file of the user's that is a module now."""
        modules = [module for module in list(sys.modules.values()) if is_module(module)]
        files = [names_of(module).get("__file__") for module in modules if is_users_module(module)]
        return [text_of_file(file) for file in files if type(file) is str]

    @functools.cached_property
    def is_seeded(self) -> bool:
        """Whether the user's code gives `random` a seed: then its numbers are no chance."""
        return any("seed(" in text for text in self.users_texts)

    def short(self, module: str, name: str) -> str:
        """Return a name for people: the module of what is looked at goes without saying."""
        return name if module == self._home else f"{module}.{name}"
