"""What do the results of a step depend on?

Never mixing results of different code requires knowing what the code of a workflow is: not only the
text of one function, but everything the function can reach.

Comparing names in the source is not enough: two instances of a class or two closures of a factory
look the same, and an edit in anything that cannot be read goes unnoticed.

So `Walk` follows the objects in memory, starting at the step: code, closures, defaults, the globals
and attributes that the code names, classes with all their bases, instances by class and state,
containers by their elements. Each object is visited once, and later only named: that two parts
share a list counts. Constants like `()` are shared by accident, so they are written out each time.
What cannot be followed (a computed name, a module that is passed around) counts as a whole. What
has no stable form counts by its class, and is listed in `left_out`.

A name from an installed package counts as a name: `openai.AsyncOpenAI`, regardless of its version.
Objects of packages count by class and state, to a limited depth; the user's functions in them are
followed. Not covered: what C code holds and does not expose.
"""

import functools
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

from limpet.fingerprints.code.canonical_text import CodeSummary
from limpet.fingerprints.code.source import Sources, text_of_file
from limpet.fingerprints.code.statements import find_module
from limpet.fingerprints.walk import (
    environment,
    functions,
    import_effects,
    objects,
    scopes,
    script_effects,
)
from limpet.fingerprints.walk import values as hidden
from limpet.fingerprints.walk.introspection import Introspection
from limpet.fingerprints.walk.ownership import (
    folders_of,
    full_name,
    is_module,
    is_users,
    is_users_module,
)
from limpet.fingerprints.walk.result import WalkResult, libraries_in
from limpet.fingerprints.walk.safe_access import is_a, module_dict, module_name, plain_name, text_at
from limpet.fingerprints.walk.scopes import package_of
from limpet.fingerprints.walk.side_effects import SideEffects
from limpet.fingerprints.walk.values import (
    UNKNOWN,
    Normalizer,
    form_of_constant,
    form_of_scalar,
    is_constant,
    is_plain_member,
)

_DEEPEST = 60
_LONGEST_PATH = 160
_SHORTEST_SECRET = 8


class Walk:
    """A walk from one object to everything it reaches.

    Args:
        is_secret: Whether a name is the name of a secret.
        secrets: Secret values.
        for_worker: Leave out what a script did before the run and a worker gets anyway, or the
            step cannot reach.

    Attributes:
        result: What counts so far.
        normalizer: Normalizes strings.
        volatile: Attributes and keys that differ at every start, by the id of their object.
        introspection: What the visited code inspects: docstrings, source, frames, the environment.
        sources: The source files.
        find_module: Finds modules; each once, as one import may be in a thousand files.
        side_effects: Knows which code changes objects that are not its own.
        reached: Names of modules that contribute something.
        files: The source files that count as a whole, each with the name of its part.
        of_python: Names that code uses and no module defines: builtins, or not defined yet.
        imported: Names of modules that functions import when they are called.
        volatile_in_classes: Attributes that differ at every start, by the id of their class.
        budget: How many more objects of libraries are visited.
        held: The mutable objects that the current value consists of.
    """

    def __init__(
        self,
        is_secret: Callable[[str], bool] = lambda _: False,
        secrets: frozenset[str] = frozenset(),
        *,
        for_worker: bool = False,
    ) -> None:
        self.for_worker = for_worker
        self.result = WalkResult()
        self.is_secret = functools.cache(is_secret)
        self._secrets = secrets | {
            value
            for name, value in os.environ.items()
            if len(value) >= _SHORTEST_SECRET and is_secret(name) and not hidden.is_prose(value)
        }
        self.normalizer = Normalizer((), self._secrets)
        self.volatile: dict[int, set[str]] = {}
        self.introspection = Introspection()
        self.sources = Sources()
        self.find_module = functools.cache(find_module)
        self.side_effects = SideEffects(self)
        self.reached: set[str] = set()
        self.files: set[tuple[str, str]] = set()
        self.of_python: set[str] = set()
        self.imported: set[str] = set()
        self.volatile_in_classes: dict[int, dict[str, bool]] = {}
        self.budget = objects.Budget()
        self.held: list[Any] = []
        self._home = ""
        self._labels: dict[int, str] = {}
        self._alive: list[Any] = []  # so that no id is reused
        self._label_counts: dict[str, int] = {}
        self._todo: deque[Callable[[], None]] = deque()
        self._nesting = 0

    def collect(self, root: Any) -> WalkResult:
        """Return everything that counts for a function, a class or an instance."""
        self._home = module_name(root)
        home = sys.modules.get(self._home)
        file = module_dict(home).get("__file__") if is_module(home) else None
        folder = Path(os.path.abspath(file)).parent if file else Path.cwd()  # noqa: PTH100 - links stay
        self.normalizer = Normalizer(tuple(map(str, folders_of([folder]))), self._secrets)
        self.result.forms["function"] = ["function", full_name(root)]
        path = plain_name(root)
        form = self.form(path, root, documented=False, named=True)
        if form != ["see", path]:
            self.add_form(path, form)
        script_effects.reach_script(self)
        self.finish()
        self.result.modules = frozenset(self.reached)
        self.result.sources = frozenset(os.path.abspath(file) for _, file in self.files)  # noqa: PTH100 - strings
        self.result.visited = frozenset(self._labels)
        return self.result

    def finish(self) -> None:
        """Follow everything that was deferred."""
        while self._todo:
            self._todo.popleft()()
            if not self._todo:
                self.introspection.finish(self)

    def has_visited(self, value: Any) -> bool:
        """Return whether an object was visited."""
        return id(value) in self._labels

    def packages(self) -> set[str]:
        """Return the packages of all objects that were visited, and of all names of libraries."""
        kinds = {type(value) for value in self._alive}
        named = {name.partition(".")[0] for name in libraries_in(list(self.result.forms.values()))}
        return {package_of(kind) for kind in kinds if not is_users(kind)} | named

    # ---- adding parts ---------------------------------------------------------------------------

    def add(self, path: str, value: Any, *, documented: bool = True, holder: Any = None) -> None:
        """Add a value as a part.

        Args:
            path: The name of the part.
            value: Any object.
            documented: Whether other code may read its docstring and hints.
            holder: The object that it is an attribute of; None if it belongs to a module.
        """
        # `answer(api_key)` is the name of a default.
        name = path[path.rfind("(") + 1 : -1] if path[-1:] == ")" else path.rpartition(".")[2]
        is_secret = self.is_secret(name)
        form = UNKNOWN if is_secret else form_of_scalar(value, self.normalizer)
        if form is not UNKNOWN:  # it holds nothing else
            self.result.holders.setdefault(self.add_form(path, form), (holder,))
            return
        if not self._nesting:
            self.budget = objects.Budget()
        outer, self.held = self.held, []
        if is_secret:
            form = hidden.form_behind_secret(self, path, value)
        else:
            form = self.form(path, value, documented=documented, named=True)
        held, self.held = self.held, outer
        if form is not hidden.NOTHING and form != ["see", path]:
            self.result.holders.setdefault(self.add_form(path, form), (holder, *held))

    def add_form(self, path: str, form: Any) -> str:
        """Add a form as a part; return its name, with a number if the name is taken."""
        count, place = 1, path
        while (known := self.result.forms.setdefault(place, form)) is not form and known != form:
            count += 1
            place = f"{path} ({count})"
        return place

    def leave_out(self, path: str, why: str) -> None:
        """Note what does not count, and why."""
        self.result.left_out[path] = why

    def leave_out_volatile(self, path: str) -> None:
        """Note a value that differs at every start."""
        self.leave_out(path, "differs at every start: counts by its source")

    def add_variable(self, name: str) -> None:
        """Add an environment variable as a part."""
        if environment.is_of_the_machine(name):
            self.leave_out(f"variable {name}", "describes the machine")
        else:
            self.add_setting(name, f"variable {name}", os.environ.get(name))

    def add_setting(self, name: str, path: str, value: str | None) -> None:
        """Add the value of a variable, in the environment or in a file; None: it is not set."""
        if not self.is_secret(name):
            form = None if value is None else self.normalizer.string(value)
        else:
            form = hidden.NOTHING if value is None else hidden.form_of_text(self, path, value)
        if form is not hidden.NOTHING:
            self.result.forms[path] = form

    # ---- values ---------------------------------------------------------------------------------

    def form(
        self, path: str, value: Any, *, documented: bool = True, named: bool = False, depth: int = 0
    ) -> Any:
        """Return the form of a value: plain data that refers to other parts by name.

        Args:
            path: The name of the value.
            value: Any object.
            documented: Whether other code may read its docstring and hints.
            named: Whether its attributes become parts of their own.
            depth: How many objects of libraries it is nested in.
        """
        form = form_of_scalar(value, self.normalizer)
        if form is not UNKNOWN:
            return form
        known = self._labels.get(id(value))
        if known is not None:
            return ["see", known]
        kind = type(value)
        if (kind is tuple or kind is frozenset) and is_constant(value):
            return form_of_constant(value, self.normalizer)
        if environment.is_handed(value):
            self.introspection.environment.indirect = True
        if kind is FunctionType:
            return self._queue(path, value, functions.read_function, documented=documented)
        if issubclass(kind, type):
            return self._queue(path, value, functions.read_class)
        if is_module(value):
            return scopes.add_module(self, value)
        if kind is BuiltinFunctionType:
            return self._builtin(path, value)
        return self._object(path, value, named=named, depth=depth)

    def _object(self, path: str, value: Any, *, named: bool, depth: int) -> Any:
        if not is_plain_member(value):
            label = self.label(path, value)
            if self._nesting > _DEEPEST:  # stay below the recursion limit
                self._todo.append(functools.partial(self._deeper, label, value, depth))
                return ["see", label]
        self._nesting += 1
        try:
            return self._guarded(path, value, named=named and self._nesting <= 3, depth=depth)  # noqa: PLR2004
        finally:
            self._nesting -= 1

    def _deeper(self, label: str, value: Any, depth: int) -> None:
        self.add_form(label, self._guarded(label, value, named=False, depth=depth))

    def _guarded(self, path: str, value: Any, *, named: bool, depth: int) -> Any:
        try:
            return self._compound(path, value, named=named, depth=depth)
        except RuntimeError:  # a thread changed an object during the walk: the walk starts over
            raise
        except Exception as error:  # noqa: BLE001 - a foreign object must not end a run
            name = full_name(type(value))
            why = f"{type(error).__name__} while reading it: counts by its class, {name}"
            self.leave_out(path, why)
            return ["a", name]

    def _compound(self, path: str, value: Any, *, named: bool, depth: int) -> Any:
        if is_a(value, *functions.GENERATORS):
            return functions.form_of_generator(self, path, value)
        form = functions.form_of_wrapper(self, path, value, depth)
        if form is UNKNOWN:
            form = objects.form_of_typing(self, path, value, depth)
        if form is not UNKNOWN:
            return form
        return objects.form_of_object(self, path, value, named=named, depth=depth)

    def _builtin(self, path: str, value: Any) -> Any:
        bound = value.__self__
        if bound is None or is_module(bound):
            return ["library", full_name(value)]
        return ["method", value.__name__, self.form(f"{path}.__self__", bound)]

    # ---- labels and the queue -------------------------------------------------------------------

    def label(self, path: str, value: Any) -> str:
        """Give an object its name; return the name."""
        if len(path) > _LONGEST_PATH:
            path = path[: _LONGEST_PATH - 40] + "…"
        count = self._label_counts[path] = self._label_counts.get(path, 0) + 1
        label = path if count == 1 else f"{path} ({count})"
        if count > 1 and label in self._label_counts:
            return self.label(label, value)
        self._label_counts.setdefault(label, 1)
        self._labels[id(value)] = label
        self._alive.append(value)
        return label

    def _queue(self, path: str, value: Any, read: Callable[..., None], **how: Any) -> Any:
        if not is_users(value) and type(value) is not FunctionType:
            return ["library", full_name(value)]  # a name, wherever it is used
        own = self.short(module_name(value), text_at(value, "__qualname__") or path)
        if "<lambda>" in own or "<locals>" in own:
            own = path
        label = self.label(own, value)
        self.defer(read, self, label, value, **how)
        return ["see", label]

    def defer(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Call a function after the current step of the walk."""
        self._todo.append(functools.partial(function, *args, **kwargs))

    def follow(
        self, label: str, summary: CodeSummary, module: str, scope: Mapping[str, Any], file: str
    ) -> None:
        """Follow everything that some code names."""
        self.introspection.note(summary)
        scopes.follow(self, label, summary, module, scope, file)

    @functools.cached_property
    def running(self) -> dict[int, int]:
        """The current line of each module that is still running, by the id of its namespace."""
        return import_effects.lines_that_run()

    @functools.cached_property
    def users_texts(self) -> list[str]:
        """The source of each of the user's loaded modules."""
        modules = [module for module in list(sys.modules.values()) if is_module(module)]
        files = [
            module_dict(module).get("__file__") for module in modules if is_users_module(module)
        ]
        return [text_of_file(file) for file in files if type(file) is str]

    @functools.cached_property
    def is_seeded(self) -> bool:
        """Whether the user's code seeds `random`: then its numbers are reproducible."""
        return any("seed(" in text for text in self.users_texts)

    def short(self, module: str, name: str) -> str:
        """Return the name of a part, without the module if it is the step's own."""
        return name if module == self._home else f"{module}.{name}"
