"""What do the results of a step depend on?

To never mix results of different code, we must know all the code of a workflow: not only the text
of one function, but everything the function can reach.

Comparing names in the source is not enough: two instances of a class or two closures of a factory
look the same, and an edit in unreadable code goes unnoticed.

So `Collector` follows the objects in memory, starting at the step: code, closures, defaults, the
globals and attributes that the code names, classes with all their bases, instances by class and
state, containers by their elements. Each object is visited once, and later only named: whether two
parts share a list matters. Constants like `()` are shared by accident, so they are written out each
time. A module that cannot be followed (a computed name, a module that is passed around) counts in
full. An object without a stable form counts by its class, and is listed in `left_out`.

A name from an installed package counts as a name: `openai.AsyncOpenAI`, regardless of its version.
Objects of packages count by class and state, to a limited depth; the user's functions in them are
followed. Not covered: hidden state of C code.
"""

import functools
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import BuiltinFunctionType, FunctionType
from typing import Any

from limpet.fingerprints.code.canonical_text import (
    DOCUMENTATION,
    FRAMES,
    LOOKS,
    SOURCE,
    SUBCLASSES,
    CodeSummary,
)
from limpet.fingerprints.walk import environment, functions, modules, objects, scopes
from limpet.fingerprints.walk.ownership import folders_of, full_name, is_module, is_users
from limpet.fingerprints.walk.result import UNSEEN_FILE, UNSEEN_VARIABLE, WalkResult
from limpet.fingerprints.walk.safe_access import is_a, module_dict, module_name, plain_name, text_at
from limpet.fingerprints.walk.script_effects import reach_script
from limpet.fingerprints.walk.values import (
    UNKNOWN,
    Normalizer,
    form_of_constant,
    form_of_scalar,
    is_constant,
    is_plain_member,
)
from limpet.fingerprints.walk.walk import Walk

_DEEPEST = 60


class Collector(Walk):
    """Collects everything that one object reaches."""

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
        reach_script(self)
        self.finish()
        self.result.modules = frozenset(self.reached)
        self.result.sources = frozenset(os.path.abspath(file) for _, file in self.files)  # noqa: PTH100 - strings
        self.result.visited = frozenset(self._labels)
        return self.result

    def finish(self) -> None:
        while self._todo:
            self._todo.popleft()()
            if not self._todo:
                self._add_inspected()
                self._add_variables()

    def follow(
        self, label: str, summary: CodeSummary, module: str, scope: Mapping[str, Any], file: str
    ) -> None:
        scopes.follow(self, label, summary, module, scope, file)

    # ---- values ---------------------------------------------------------------------------------

    def form(
        self, path: str, value: Any, *, documented: bool = True, named: bool = False, depth: int = 0
    ) -> Any:
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
            self.environment.indirect = True
        if kind is FunctionType:
            return self._queue(path, value, functions.read_function, documented=documented)
        if issubclass(kind, type):
            return self._queue(path, value, functions.read_class)
        if is_module(value):
            return modules.add_module(self, value)
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

    def _queue(self, path: str, value: Any, read: Callable[..., None], **how: Any) -> Any:
        if not is_users(value) and type(value) is not FunctionType:
            return ["library", full_name(value)]
        own = self.short(module_name(value), text_at(value, "__qualname__") or path)
        if "<lambda>" in own or "<locals>" in own:
            own = path
        label = self.label(own, value)
        self.defer(read, self, label, value, **how)
        return ["see", label]

    # ---- parts that count only if visited code inspects them ------------------------------------

    def _add_inspected(self) -> None:
        """Add docstrings, source, frames and subclasses that the visited code reads.

        Called after all code has been visited. New objects go to the queue.
        """
        forms = self.result.forms
        if DOCUMENTATION in self.notices:
            forms.update(self.documentation)
            hints, self.hints = self.hints, []
            for hinted, scope in hints:
                functions.follow_hints(self, hinted, scope)
        if SOURCE in self.notices:
            for label, text, _ in self.functions:
                forms[f"{label} as written"] = text()
        if FRAMES in self.notices:
            for label, _, code in self.functions:
                forms[f"{label}: names of locals"] = [*code.co_varnames, *code.co_cellvars]
        if SUBCLASSES in self.notices:
            classes, self.classes = self.classes, []
            for label, cls in classes:
                subclasses: list[type] = type.__subclasses__(cls)
                forms[f"{label}.__subclasses__"] = [
                    self.form(plain_name(below), below) for below in subclasses if is_users(below)
                ]
        if LOOKS in self.notices:
            self.leave_out("exists, stat and the like", UNSEEN_FILE)

    def _add_variables(self) -> None:
        """Add environment variables that the visited code does not read by a literal name."""
        if self.environment.computes_names:
            self.leave_out("a variable with a computed name", UNSEEN_VARIABLE)
        named = {name for getter, name in self.calls if getter in self.getters}
        for name in sorted(named.union(self.environment.names(self.result.forms))):
            self.add_variable(name)
