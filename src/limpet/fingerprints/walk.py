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
count by class and state, to a bounded depth.

Still open. What C code holds and does not show; a name in a library that the user's code changed.
"""

import ast
import contextlib
import functools
import json
import os
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from enum import Enum
from hashlib import blake2b
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from limpet.fingerprints import environment, names, origin, source, syntax
from limpet.fingerprints.modules import files_below, file_of_module
from limpet.fingerprints.ownership import is_users, is_users_file, is_users_module
from limpet.fingerprints.syntax import Chain
from limpet.fingerprints.values import UNKNOWN, Texts, contents_of, form_of_scalar

_DEEPEST_IN_LIBRARY = 8
_MOST_IN_LIBRARY = 5_000
_GENERATED = {"__init__", "__repr__", "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__"}
_GENERATED |= {"__setattr__", "__delattr__", "__replace__", "__new__", "__getnewargs__", "__getstate__"}
_GENERATED |= {"_make", "_replace", "_asdict", "__setstate__"}
_OF_A_CLASS = {"__module__", "__dict__", "__weakref__", "__doc__", "__qualname__", "__annotations__"}
_OF_A_CLASS |= {"__dataclass_fields__", "__dataclass_params__", "__match_args__", "__slots__"}
_OF_A_CLASS |= {"__abstractmethods__", "_abc_impl", "__firstlineno__", "__static_attributes__"}
_OF_A_CLASS |= {"__parameters__", "__orig_bases__", "__annotate__", "__annotate_func__", "__hash__"}
_OF_A_CLASS |= {"__annotations_cache__", "__class_vars__", "__private_attributes__", "model_fields"}
_OF_A_CLASS |= {"_member_map_", "_member_names_", "_value2member_map_", "_generate_next_value_"}
_OF_A_CLASS |= {"_new_member_", "_use_args_", "_member_type_", "_unhashable_values_", "_value_repr_"}
_OF_A_CLASS |= {"__signature__", "__getstate__", "_hashable_values_", "_unhashable_values_map_"}


@dataclass
class Looked:
    """What a walk found.

    Attributes:
        forms: Everything that counts, by a name for people: its form as plain data.
        left_out: What does not count, by name: why.
        variables: Variables of the environment that code reads, with their value.
    """

    forms: dict[str, Any] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str | None] = field(default_factory=dict)

    @functools.cached_property
    def parts(self) -> dict[str, str]:
        """The digest of each thing that counts."""
        return {name: digest_of(form) for name, form in self.forms.items()}


def digest_of(form: Any) -> str:
    """Return 32 hex digits that are the same for the same form."""
    content = json.dumps(form, separators=(",", ":")).encode(errors="surrogatepass")
    return blake2b(content, digest_size=16).hexdigest()


class Walk:
    """One look at an object and all that it reaches.

    Args:
        is_secret: Tells whether a name is a secret's.
        secrets: Values that are secrets.
    """

    def __init__(
        self,
        is_secret: Callable[[str], bool] = lambda _: False,
        secrets: frozenset[str] = frozenset(),
    ) -> None:
        self.found = Looked()
        self._is_secret = is_secret
        self._secrets = secrets
        self._texts = Texts((), secrets)
        self._home = ""
        self._labels: dict[int, str] = {}
        self._alive: list[Any] = []  # so that no id is used again
        self._taken: set[str] = set()
        self._files: dict[str, source.Parsed | None] = {}
        self._todo: deque[Callable[[], None]] = deque()
        self._reads_documentation = False
        self._undocumented: dict[str, Any] = {}
        self._library_room = _MOST_IN_LIBRARY

    def look(self, root: Any) -> Looked:
        """Return what counts for an object: a function, a class, an instance."""
        self._home = _module_name(root)
        home = sys.modules.get(self._home)
        folder = os.path.dirname(os.path.abspath(getattr(home, "__file__", None) or "."))  # noqa: PTH100, PTH120 - text in, text out
        self._texts = Texts((folder, os.getcwd()), self._secrets)  # noqa: PTH109
        self.found.forms["function"] = ["function", _full_name(root)]
        self._use(_plain_name(root), root)
        while self._todo:
            self._todo.popleft()()
        if self._reads_documentation:
            self.found.forms.update(self._undocumented)
        for name, value in self.found.variables.items():
            self.found.forms[f"variable {name}"] = value
        return self.found

    # ---- values ---------------------------------------------------------------------------------

    def _use(self, path: str, value: Any, *, documented: bool = True) -> None:
        """Let a value count under a name of its own."""
        name = path.rpartition(".")[2].rstrip(")")
        if self._is_secret(name):
            self.found.left_out[path] = "a secret"
            return
        form = self._form(path, value, documented=documented, named=True)
        if form != ["see", path]:
            self._keep(path, form)

    def _keep(self, path: str, form: Any) -> None:
        self.found.forms.setdefault(path, form)

    def _form(
        self, path: str, value: Any, *, documented: bool = True, named: bool = False, depth: int = 0
    ) -> Any:
        """Return the form of a value; what has one of its own is named in it."""
        form = form_of_scalar(value, self._texts)
        if form is not UNKNOWN:
            return form
        known = self._labels.get(id(value))
        if known is not None:
            return ["see", known]
        kind = type(value)
        if kind is FunctionType:
            return self._later(path, value, self._function, documented=documented)
        if issubclass(kind, type):
            return self._later(path, value, self._class)
        if kind is ModuleType:
            return self._module(value)
        if kind is BuiltinFunctionType:
            return self._builtin(path, value)
        if kind is MethodType:
            self._label(path, value)
            return ["method", self._form(f"{path}.__func__", value.__func__), self._form(f"{path}.__self__", value.__self__)]
        self._label(path, value)
        if kind is functools.partial:
            inner = [value.func, value.args, value.keywords]
            return ["partial", *(self._form(f"{path}({n})", one, depth=depth) for n, one in zip(("function", "arguments", "names"), inner, strict=True))]
        if kind is ContextVar:
            try:
                held = self._form(f"{path}.value", value.get(), depth=depth)
            except LookupError:
                held = None
            return ["context variable", value.name, held]
        if kind in (staticmethod, classmethod):
            return [kind.__name__, self._form(path, value.__func__)]
        if kind is property:
            got = [value.fget, value.fset, value.fdel]
            return ["property", *(one and self._form(path, one) for one in got)]
        return self._object(path, value, named=named, depth=depth)

    def _object(self, path: str, value: Any, *, named: bool, depth: int) -> Any:
        kind = type(value)
        users = is_users(kind)
        if not users and not self._has_room(depth):
            self.found.left_out[path] = f"too much in it: counts by its class, {_full_name(kind)}"
            return ["a", _full_name(kind)]
        what: Any = self._form(_plain_name(kind), kind) if users else _full_name(kind)
        if issubclass(kind, Enum):
            return ["member", what, value._name_, self._form(f"{path}.value", value._value_, depth=depth + 1)]
        deeper = depth + (not users)
        content = contents_of(value)
        form: list[Any] = ["a", what]
        if content is not None:
            form.append(self._contents(path, value, content, deeper))
        for base in (str, bytes, int, float):
            if issubclass(kind, base):
                form.append(base.__repr__(value))
        attributes = attributes_of(value)
        if content is None and not attributes and len(form) == 2 and not users:
            return self._opaque(path, value, form)
        for name, one in sorted(attributes.items()):
            if self._is_secret(name):
                self.found.left_out[f"{path}.{name}"] = "a secret"
            elif users and self._by_chance_in_class(kind, name):
                self.found.left_out[f"{path}.{name}"] = "differs at every start: counts by its source"
            elif named and users:
                self._use(f"{path}.{name}", one)
            else:
                form.append([name, self._form(f"{path}.{name}", one, depth=deeper)])
        return form

    def _has_room(self, depth: int) -> bool:
        self._library_room -= 1
        return depth < _DEEPEST_IN_LIBRARY and self._library_room > 0

    def _contents(self, path: str, value: Any, content: list[Any], depth: int) -> Any:
        if issubclass(type(value), (set, frozenset)):
            return sorted(json.dumps(self._form(f"{path}[…]", one, depth=depth)) for one in content)
        if issubclass(type(value), dict) or type(value).__name__ == "mappingproxy":
            return [
                [self._form(f"{path}[key]", key, depth=depth), self._item(path, key, one, depth)]
                for key, one in content
            ]
        return [self._form(f"{path}[{n}]", one, depth=depth) for n, one in enumerate(content)]

    def _item(self, path: str, key: Any, value: Any, depth: int) -> Any:
        if type(key) is str and self._is_secret(key):
            self.found.left_out[f"{path}[{key!r}]"] = "a secret"
            return None
        return self._form(f"{path}[{key!r}]" if type(key) is str else f"{path}[…]", value, depth=depth)

    def _opaque(self, path: str, value: Any, form: list[Any]) -> Any:
        """Return the form of an object that shows nothing: by its class, or as it is copied."""
        kind = type(value)
        if kind.__module__ in ("operator", "_operator", "builtins", "itertools"):
            with contextlib.suppress(Exception):
                return [*form, self._form(f"{path}.state", value.__reduce__()[1])]
        if kind is not object:
            self.found.left_out[path] = f"no stable form: counts by its class, {_full_name(kind)}"
        return form

    def _builtin(self, path: str, value: Any) -> Any:
        bound = value.__self__
        if bound is None or type(bound) is ModuleType:
            return ["library", _full_name(value)]
        return ["method", value.__name__, self._form(f"{path}.__self__", bound)]

    # ---- what has a part of its own -------------------------------------------------------------

    def _label(self, path: str, value: Any) -> str:
        label, count = path, 1
        while label in self._taken:
            count += 1
            label = f"{path} ({count})"
        self._taken.add(label)
        self._labels[id(value)] = label
        self._alive.append(value)
        return label

    def _later(self, path: str, value: Any, read: Callable[..., None], **how: Any) -> Any:
        own = self._short(_module_name(value), getattr(value, "__qualname__", path))
        if "<lambda>" in own or "<locals>" in own:
            own = path
        label = self._label(own, value)
        if not is_users(value) and type(value) is not FunctionType:
            return ["library", _full_name(value)]
        self._todo.append(functools.partial(read, label, value, **how))
        return ["see", label]

    def _function(self, label: str, function: FunctionType, *, documented: bool) -> None:
        code = function.__code__
        if is_users_file(code.co_filename):
            self._users_function(label, function, documented=documented)
        else:
            self._keep(label, ["library", _full_name(function)])
        enclosing = function.__qualname__.rpartition(".<locals>.")[0]
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # not bound yet
                value = cell.cell_contents
                if enclosing and self._by_chance_in_function(function, enclosing, name):
                    self.found.left_out[f"{label}.{name}"] = "differs at every start: counts by its source"
                else:
                    self._use(f"{label}.{name}", value)
        for name, value in sorted(vars(function).items()):
            self._use(f"{label}.{name}", value)

    def _users_function(self, label: str, function: FunctionType, *, documented: bool) -> None:
        code, scope = function.__code__, function.__globals__
        module = scope.get("__name__", "")
        for name, value in _defaults_of(function):
            self._use(f"{label}({name})", value)
        node = source.definition_of(code)
        if node is None:
            self._keep(label, ["bytecode", source.shape(code)])
            self._reads_documentation = True
            self._chains(module, scope, chains := names.chains_in(code), chains)
            return
        reading = syntax.read(node)
        self._keep(label, ["code", reading.digest])
        self._document(label, node, counts=documented or bool(getattr(node, "decorator_list", ())))
        self._follow(label, reading, module, scope, code.co_filename)

    def _follow(
        self, label: str, reading: syntax.Reading, module: str, scope: Mapping[str, Any], file: str
    ) -> None:
        """Go on with all that a piece of code names."""
        self._variables(label, reading, scope)
        for name in names.imports_in(reading.imports, scope.get("__package__")):
            self._imported(name, file)
        self._reads_documentation |= reading.reads_documentation
        self._chains(module, scope, reading.chains, reading.handed)
        if reading.computes_names:
            self._whole_scope(module, scope)

    def _chains(
        self, module: str, scope: Mapping[str, Any], chains: set[Chain], handed: set[Chain]
    ) -> None:
        for chain in sorted(chains):
            self._chain(module, scope, chain, documented=chain in handed)

    def _document(self, label: str, node: ast.AST, *, counts: bool) -> None:
        text = syntax.documentation_of(node)
        if text is not None:
            into = self.found.forms if counts else self._undocumented
            into[f"{label}.__doc__"] = text

    def _variables(self, label: str, reading: syntax.Reading, scope: Mapping[str, Any]) -> None:
        for name in environment.variables_read(reading.looked_up, scope):
            if name is environment.COMPUTED:
                self.found.left_out[f"{label}: environment"] = "reads a variable by a computed name"
            elif environment.is_of_the_machine(name) or self._is_secret(name):
                self.found.left_out[f"variable {name}"] = "a secret, or of the machine"
            else:
                value = os.environ.get(name)
                self.found.variables[name] = None if value is None else self._texts.of(value)

    def _chain(self, module: str, scope: Mapping[str, Any], chain: Chain, *, documented: bool) -> None:
        first, *rest = chain
        if first not in scope:
            return  # a builtin, or not there yet
        if chain[:2] == ("sys", "argv") and scope[first] is sys and not _is_our_command():
            self._keep("sys.argv", [self._texts.of(one) for one in sys.argv[1:]])
            return
        value, path = scope[first], self._short(module, first)
        owner, name, where = scope, first, module
        while type(value) is ModuleType and rest:
            if not is_users_module(value):
                self._keep(path, ["library", ".".join([value.__name__, *rest])])
                return
            name = rest.pop(0)
            owner, where = vars(value), value.__name__
            if name not in owner:
                self._module(value)
                return
            value, path = owner[name], self._short(where, name)
        if self._by_chance(where, owner, name):
            return
        self._use(path, value, documented=documented)

    # ---- classes --------------------------------------------------------------------------------

    def _class(self, label: str, cls: type) -> None:
        module = sys.modules.get(cls.__module__)
        scope: Mapping[str, Any] = vars(module) if module is not None else {}
        file = getattr(module, "__file__", None) or _file_of(cls)
        node = source.class_statement(cls, file) if isinstance(file, str) else None
        bases = [self._form(_plain_name(one), one) for one in cls.__bases__]
        form: list[Any] = ["class", bases]
        if type(cls) is not type:
            form.append(self._form(_plain_name(type(cls)), type(cls)))
        if node is not None:
            reading = syntax.read_class_body(node)
            form.append(reading.digest)
            received = bool(node.decorator_list or node.bases or node.keywords)
            self._document(label, node, counts=received)
            self._follow(label, reading, cls.__module__, scope, str(file))
        self._keep(label, form)
        made = _is_made(cls)
        assigned = source.assignments(node.body) if node is not None else {}
        written = {one.name for one in node.body if isinstance(one, syntax.FUNCTIONS)} if node else ()
        for name, member in sorted(vars(cls).items()):
            if name in _OF_A_CLASS or name.startswith("__pydantic"):
                continue
            if made and name in _GENERATED and name not in written:
                continue
            if issubclass(type(member), cls) and issubclass(cls, Enum):
                self._keep(f"{label}.{name}", [member._name_, self._form(f"{label}.{name}.value", member._value_)])
            elif node is not None and origin.by_chance(assigned.get(name, []), scope):
                self.found.left_out[f"{label}.{name}"] = "differs at every start: counts by its source"
            elif not _is_slot(member):
                self._use(f"{label}.{name}", member, documented=False)

    # ---- modules --------------------------------------------------------------------------------

    def _module(self, module: ModuleType) -> Any:
        """Let a whole module count: it is handed around, and anything in it may be used."""
        if not is_users_module(module):
            return ["library", module.__name__]
        self._whole_scope(module.__name__, vars(module))
        return ["module", self._short(module.__name__, "") or "its own"]

    def _whole_scope(self, module: str, scope: Mapping[str, Any]) -> None:
        label = f"module {module}"
        if label in self.found.forms:
            return
        self._keep(label, ["module"])
        parsed = self._file_of_scope(scope)
        if parsed is not None:
            reading = syntax.read(parsed.tree)
            self.found.forms[label] = ["module", reading.digest]
            self._variables(label, reading, scope)
        in_notebook = parsed is None
        for name, value in sorted(scope.items(), key=lambda one: str(one[0])):
            if name.startswith("__") or name in ("In", "Out", "exit", "quit", "get_ipython"):
                continue
            if in_notebook and (name.startswith("_") or not _is_definition(value)):
                continue
            if type(value) is ModuleType and not is_users_module(value):
                continue
            if not self._by_chance(module, scope, name):
                self._todo.append(functools.partial(self._use, self._short(module, name), value))

    def _imported(self, name: str, importer: str) -> None:
        """Let a module count that code imports when it runs, with all that it imports in turn."""
        if name.endswith("*"):
            for file in files_below(name[:-2], importer):
                self._file(Path(file).stem, file)
            return
        loaded = sys.modules.get(name)
        if loaded is not None and is_users_module(loaded) and name != "__main__":
            self._whole_scope(name, vars(loaded))
        file = file_of_module(name, importer)
        if file is not None:
            self._file(name, file)

    def _file(self, name: str, file: str) -> None:
        label = f"file of {name}"
        if label in self.found.forms or not is_users_file(file):
            return
        parsed = self._parsed(file)
        if parsed is None:
            self._keep(label, ["unreadable"])
            return
        reading = syntax.read(parsed.tree)
        self._keep(label, ["module", reading.digest])
        self._variables(label, reading, {})
        package = name if Path(file).name == "__init__.py" else name.rpartition(".")[0]
        for one in sorted(set(names.imports_in(reading.imports, package))):
            self._imported(one, file)

    # ---- chance ---------------------------------------------------------------------------------

    def _by_chance(self, module: str, scope: Mapping[str, Any], name: str) -> bool:
        """Tell whether a global differs at every start; then its source counts."""
        value = scope.get(name)
        if type(value) in (FunctionType, ModuleType, bool, type(None)) or issubclass(type(value), type):
            return False
        parsed = self._file_of_scope(scope)
        values = [] if parsed is None else parsed.assignments.get(name, [])
        if not origin.by_chance(values, scope):
            return False
        path = self._short(module, name)
        if path not in self.found.left_out:
            self.found.left_out[path] = "differs at every start: counts by its source"
            reading = syntax.read(*values)
            self._keep(path, ["source", reading.digest])
            self._follow(path, reading, module, scope, str(scope.get("__file__")))
        return True

    def _by_chance_in_class(self, cls: type, name: str) -> bool:
        for base in cls.__mro__:
            module = sys.modules.get(base.__module__)
            file = getattr(module, "__file__", None)
            if module is None or not isinstance(file, str) or not is_users(base):
                continue
            node = source.class_statement(base, file)
            values = [] if node is None else list(origin.assigned_to_self(node, name))
            if values and origin.by_chance(values, vars(module)):
                return True
        return False

    def _by_chance_in_function(self, function: FunctionType, enclosing: str, name: str) -> bool:
        parsed = self._parsed(function.__code__.co_filename)
        if parsed is None:
            return False
        last = enclosing.rpartition(".")[2]
        for node in ast.walk(parsed.tree):
            if isinstance(node, syntax.FUNCTIONS) and node.name == last:
                values = source.assignments(node.body).get(name, [])
                if origin.by_chance(values, function.__globals__):
                    return True
        return False

    def _file_of_scope(self, scope: Mapping[str, Any]) -> source.Parsed | None:
        file = scope.get("__file__")
        return self._parsed(file) if isinstance(file, str) else None

    def _parsed(self, file: str) -> source.Parsed | None:
        if file not in self._files:
            self._files[file] = source.file_as_it_is(file)
        return self._files[file]

    def _short(self, module: str, name: str) -> str:
        return name if module == self._home else f"{module}.{name}"


def attributes_of(value: Any) -> dict[str, Any]:
    """Return what an object holds, without running any code of its own."""
    attributes: dict[str, Any] = {}
    for cls in type(value).__mro__:
        slots = vars(cls).get("__slots__", ())
        for name in [slots] if isinstance(slots, str) else tuple(slots):
            if name in ("__dict__", "__weakref__"):
                continue
            with contextlib.suppress(AttributeError, TypeError, KeyError):
                mangled = f"_{cls.__name__.lstrip('_')}{name}" if name.startswith("__") and not name.endswith("__") else name
                attributes[name] = vars(cls)[mangled].__get__(value)
    with contextlib.suppress(AttributeError, TypeError):
        attributes.update(object.__getattribute__(value, "__dict__"))
    return {str(name): one for name, one in attributes.items()}


def _defaults_of(function: FunctionType) -> list[tuple[str, Any]]:
    code = function.__code__
    given = function.__defaults__ or ()
    by_place = code.co_varnames[code.co_argcount - len(given) : code.co_argcount]
    return [*zip(by_place, given, strict=True), *sorted((function.__kwdefaults__ or {}).items())]


def _is_made(cls: type) -> bool:
    """Tell whether a library made methods for it, out of its fields."""
    makers = ("__dataclass_fields__", "_fields", "__attrs_attrs__")
    return any(name in vars(cls) for name in makers)


def _is_slot(member: Any) -> bool:
    return type(member).__name__ in ("member_descriptor", "getset_descriptor")


def _is_definition(value: Any) -> bool:
    plain = type(value) in (str, int, float, bool, bytes, tuple, list, dict, type(None))
    return plain or type(value) is FunctionType or issubclass(type(value), type)


def _is_our_command() -> bool:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    return Path(sys.argv[0] or "-").name == "limpet" or (spec is not None and spec.name.startswith("limpet"))


def _file_of(cls: type) -> str | None:
    for member in vars(cls).values():
        if type(member) is FunctionType:
            return member.__code__.co_filename
    return None


def _module_name(thing: Any) -> str:
    while type(thing) is functools.partial:
        thing = thing.func
    if type(thing) is FunctionType:
        return str(thing.__globals__.get("__name__") or thing.__module__ or "")
    module = getattr(thing, "__module__", None)
    if not isinstance(module, str):
        module = getattr(type(thing), "__module__", "")
    return str(module)


def _plain_name(thing: Any) -> str:
    while type(thing) is functools.partial:
        thing = thing.func
    name = getattr(thing, "__qualname__", None)
    return name if isinstance(name, str) else type(thing).__qualname__


def _full_name(thing: Any) -> str:
    # A script's own module has another name when it is imported: there the name alone counts.
    module = "" if is_users(thing) or is_users(type(thing)) else _module_name(thing)
    return f"{module}.{_plain_name(thing)}".lstrip(".")
