"""What has a walk found so far?

`Collector` follows the objects; the other files of this room add what they find to a `Walk`.
"""

import ast
import functools
import os
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, MappingProxyType, MethodType
from typing import Any

from limpet.fingerprints.code.canonical_text import CodeSummary
from limpet.fingerprints.code.source import Sources, text_of_file
from limpet.fingerprints.code.statements import find_module
from limpet.fingerprints.walk.environment import EnvironmentUse, is_of_the_machine
from limpet.fingerprints.walk.ownership import full_name, is_module, is_users, is_users_module
from limpet.fingerprints.walk.result import UNSEEN_NAME, WalkResult, digest_of, libraries_in
from limpet.fingerprints.walk.safe_access import (
    attributes_of,
    class_dict,
    is_a,
    module_dict,
    mro_of,
)
from limpet.fingerprints.walk.side_effects import SideEffects, package_of
from limpet.fingerprints.walk.values import UNKNOWN, Normalizer, contents_of, form_of_scalar
from limpet.secrets.known import is_secret_name, looks_secret

_LONGEST_PATH = 160
_SHORTEST_SECRET = 8
_DEEPEST_IN_LIBRARY, _MOST_IN_LIBRARY = 20, 5_000
_TEXT = (str, bytes, bytearray)
_CODE: tuple[type, ...] = (FunctionType, MethodType, BuiltinFunctionType, functools.partial)
_CODE += (staticmethod, classmethod, property)
_CONTAINERS = (list, tuple, set, frozenset, dict, deque, MappingProxyType)
_DEEPEST_SECRET, _DEEPEST_SECRET_IN_LIBRARIES = 20, 4
ALL_SECRET: Any = object()
"""The form of a value that does not count: all of it is a secret."""


class Walk(ABC):
    """A walk from one object to everything it reaches.

    Args:
        secrets: Secret values.
        for_worker: Omit a script's changes before the run that a worker gets anyway, or that the
            step cannot reach.

    Attributes:
        result: The parts so far.
        normalizer: Normalizes strings.
        volatile: Attributes and keys that differ at every start, by the id of their object.
        environment: How the visited code uses the environment.
        getters: Names of functions that read the environment variable named by their argument.
        calls: Calls with a literal argument: the last name of the function, and the argument.
        notices: The things the visited code inspects: docstrings, source, frames, subclasses.
        documentation: Docstrings and hints, which count if any visited code reads them.
        hints: Type hints with the globals of their module, likewise.
        functions: The visited functions: label, a callable that gives the source, code.
        classes: The visited classes, by label.
        sources: The source files.
        find_module: Finds modules, cached: one import may be in a thousand files.
        side_effects: Checks which code changes others' objects.
        reached: Names of modules that contribute something.
        files: The source files that count in full, each with the name of its part.
        of_python: Names that code uses and no module defines: builtins, or not defined yet.
        imported: Names of modules that functions import when they are called.
        volatile_in_classes: Attributes that differ at every start, by the id of their class.
        held: The mutable objects that the current value consists of.
    """

    def __init__(self, secrets: frozenset[str] = frozenset(), *, for_worker: bool = False) -> None:
        self.for_worker = for_worker
        self.result = WalkResult()
        self._secrets = secrets | {
            value
            for name, value in os.environ.items()
            if len(value) >= _SHORTEST_SECRET and is_secret_name(name) and not _is_prose(value)
        }
        self.normalizer = Normalizer((), self._secrets)
        self.volatile: dict[int, set[str]] = {}
        self.environment = EnvironmentUse()
        self.getters: set[str] = set()
        self.calls: set[tuple[str, str]] = set()
        self.notices: set[str] = set()
        self.documentation: dict[str, Any] = {}
        self.hints: list[tuple[list[ast.expr], Mapping[str, Any]]] = []
        self.functions: list[tuple[str, Callable[[], str], CodeType]] = []
        self.classes: list[tuple[str, type]] = []
        self.sources = Sources()
        self.find_module = functools.cache(find_module)
        self.side_effects = SideEffects(self.sources)
        self.reached: set[str] = set()
        self.files: set[tuple[str, str]] = set()
        self.of_python: set[str] = set()
        self.imported: set[str] = set()
        self.volatile_in_classes: dict[int, dict[str, bool]] = {}
        self.held: list[Any] = []
        self._home = ""
        self._room = _MOST_IN_LIBRARY
        self._labels: dict[int, str] = {}
        self._alive: list[Any] = []  # keeps ids from being reused
        self._label_counts: dict[str, int] = {}
        self._todo: deque[Callable[[], None]] = deque()
        self._nesting = 0

    @abstractmethod
    def form(
        self, path: str, value: Any, *, documented: bool = True, named: bool = False, depth: int = 0
    ) -> Any:
        """Return the form of a value: plain data that refers to other parts by name.

        Args:
            path: The name of the value.
            value: Any object.
            documented: Whether other code may read its docstring and hints.
            named: Whether its attributes become separate parts.
            depth: How many library objects contain it.
        """

    @abstractmethod
    def follow(
        self, label: str, summary: CodeSummary, module: str, scope: Mapping[str, Any], file: str
    ) -> None:
        """Follow everything that some code names."""

    @abstractmethod
    def finish(self) -> None:
        """Follow everything that was deferred."""

    def defer(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Call a function after the current step of the walk."""
        self._todo.append(functools.partial(function, *args, **kwargs))

    # ---- adding parts ---------------------------------------------------------------------------

    def add(self, path: str, value: Any, *, documented: bool = True, holder: Any = None) -> None:
        """Add a value as a part.

        Args:
            path: The name of the part.
            value: Any object.
            documented: Whether other code may read its docstring and hints.
            holder: The object that has it as an attribute; None if it belongs to a module.
        """
        # `answer(api_key)` is the name of a default.
        name = path[path.rfind("(") + 1 : -1] if path[-1:] == ")" else path.rpartition(".")[2]
        is_secret = is_secret_name(name)
        form = UNKNOWN if is_secret else form_of_scalar(value, self.normalizer)
        if form is not UNKNOWN:  # a scalar
            self.result.holders.setdefault(self.add_form(path, form), (holder,))
            return
        if not self._nesting:
            self._room = _MOST_IN_LIBRARY
        outer, self.held = self.held, []
        if is_secret:
            form = self.form_behind_secret(path, value)
        else:
            form = self.form(path, value, documented=documented, named=True)
        held, self.held = self.held, outer
        if form is not ALL_SECRET and form != ["see", path]:
            self.result.holders.setdefault(self.add_form(path, form), (holder, *held))

    def add_form(self, path: str, form: Any) -> str:
        """Add a form as a part; return its name, with a number if the name is taken."""
        count, name = 1, path
        while (known := self.result.forms.setdefault(name, form)) is not form and known != form:
            count += 1
            name = f"{path} ({count})"
        return name

    def leave_out(self, path: str, why: str) -> None:
        """Record that something does not count, and why."""
        self.result.left_out[path] = why

    def leave_out_volatile(self, path: str) -> None:
        """Record a value that differs at every start."""
        self.leave_out(path, "differs at every start: counts by its source")

    def add_variable(self, name: str) -> None:
        """Add an environment variable as a part."""
        if is_of_the_machine(name):
            self.leave_out(f"variable {name}", "describes the machine")
        else:
            self.add_setting(name, f"variable {name}", os.environ.get(name))

    def add_setting(self, name: str, path: str, value: str | None) -> None:
        """Add the value of a variable, in the environment or in a file; None: it is not set."""
        if not is_secret_name(name):
            form = None if value is None else self.normalizer.string(value)
        else:
            form = ALL_SECRET if value is None else self._form_of_text(path, value)
        if form is not ALL_SECRET:
            self.result.forms[path] = form

    # ---- values under a secret's name -----------------------------------------------------------
    #
    # A string without white space is the secret, and does not count. If it does not look like a
    # key, the plan names it. A string with white space, or with letters beyond ASCII, is prose,
    # like a prompt about passwords: it counts by its digest, and is not shown. Anything else
    # counts: `guess_password` is a function, `secret` may be a puzzle. The same holds for strings
    # in containers and in library objects.

    def form_behind_secret(self, path: str, value: Any, depth: int = 0) -> Any:
        """Return the form of a value under a secret's name; ALL_SECRET if it is all secret."""
        if value is None:  # a key that is not set
            return ALL_SECRET
        if is_a(value, *_TEXT):
            return self._form_of_text(path, value)
        if self._is_walked(value):
            return self.form(path, value)
        is_container, is_dict = is_a(value, *_CONTAINERS), is_a(value, dict, MappingProxyType)
        if depth >= (_DEEPEST_SECRET if is_container else _DEEPEST_SECRET_IN_LIBRARIES):
            return ALL_SECRET
        content = contents_of(value) if is_container else None
        if content is None:
            held = [(f"{path}.{name}", part) for name, part in sorted(attributes_of(value).items())]
        else:
            held = [(f"{path}[…]", part[1] if is_dict else part) for part in content]
        forms = [self.form_behind_secret(at, part, depth + 1) for at, part in held]
        # Keys are names; in a digest, a secret among them is not shown.
        keys = [pair[0] for pair in content or () if is_dict and is_a(pair[0], str)]
        named = sorted(digest_of(key) for key in keys if not looks_secret(key))
        return [full_name(type(value)), named, *(form for form in forms if form is not ALL_SECRET)]

    def _form_of_text(self, path: str, value: Any) -> Any:
        text = str.__str__(value) if is_a(value, str) else bytes(value).decode("latin-1")
        if _is_prose(text):
            return ["text", digest_of(self.normalizer.string(text))]
        is_known = not text or looks_secret(text) or self.normalizer.string(text) != text
        self.leave_out(path, "a secret" if is_known else UNSEEN_NAME)
        return ALL_SECRET

    def _is_walked(self, value: Any) -> bool:
        """Return whether a value counts despite a secret's name."""
        kind = type(value)
        if is_a(value, *_CODE) or issubclass(kind, type) or is_module(value) or is_users(kind):
            return True
        if form_of_scalar(value, self.normalizer) is not UNKNOWN:
            return True
        # An object that acts as a function: a cache around it, a tool.
        return any(
            name in class_dict(base) for base in mro_of(kind) for name in ("__call__", "__get__")
        )

    # ---- objects --------------------------------------------------------------------------------

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

    def has_visited(self, value: Any) -> bool:
        """Return whether an object was visited."""
        return id(value) in self._labels

    def has_room(self, depth: int) -> bool:
        """Count a library object; return whether there is room for it in this part."""
        self._room -= 1
        return depth < _DEEPEST_IN_LIBRARY and self._room > 0

    def packages(self) -> set[str]:
        """Return the packages of all visited objects, and of all library names."""
        kinds = {type(value) for value in self._alive}
        named = {name.partition(".")[0] for name in libraries_in(list(self.result.forms.values()))}
        return {package_of(kind) for kind in kinds if not is_users(kind)} | named

    def short(self, module: str, name: str) -> str:
        """Return the name of a part, without the module if it is the step's own."""
        return name if module == self._home else f"{module}.{name}"

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


def _is_prose(text: str) -> bool:
    """Return whether a text under a secret's name is prose, not a secret: it has white space.

    A private key has lines too, but is marked as a key. A text that is not ASCII is not a key
    either: some languages have no white space.
    """
    is_private_key = text.lstrip().startswith("-----BEGIN ")
    return (len(text.split()) > 1 and not is_private_key) or not text.isascii()
