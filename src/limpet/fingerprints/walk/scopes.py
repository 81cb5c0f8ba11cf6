"""Which globals of a module does code use? All of them if it computes their names."""

import ast
import builtins
import re
import sys
from collections import ChainMap
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.code.canonical_text import Chain, CodeSummary
from limpet.fingerprints.code.statements import (
    file_of_module,
    imports_in,
    modules_below,
    statements_in,
)
from limpet.fingerprints.walk import environment, import_effects, volatile
from limpet.fingerprints.walk.ownership import is_module, is_users, is_users_file, is_users_module
from limpet.fingerprints.walk.safe_access import (
    attributes_of,
    class_dict,
    module_dict,
    module_name,
    mro_of,
    text_at,
)

if TYPE_CHECKING:
    from limpet.fingerprints.walk.walk import Walk


Scope = Mapping[str, Any]
# ---- Which object does a name in code refer to, and which package owns it? ----------------------

NOTHING: Any = object()
"""The object of a name that is unknown."""


def resolved(chain: tuple[str, ...], scope: Scope) -> tuple[Any, str | None]:
    """Return the object that a chain refers to, and the package that owns it, if any."""
    first, *rest = chain
    value = scope.get(first, vars(builtins).get(first, NOTHING))
    owner: str | None = None
    for name in rest:
        if value is NOTHING:
            break
        if is_module(value):
            if not is_users_module(value):
                owner = _root(text_at(value, "__name__"))
            value = module_dict(value).get(name, NOTHING)
        elif issubclass(type(value), type):
            cls, owner = value, owner if is_users(value) else owner or package_of(value)
            value = in_class(cls, name)
            value = in_class(type(cls), name) if value is NOTHING else value
        elif is_users(type(value)):
            held = attributes_of(value)
            value = held[name] if name in held else in_class(type(value), name)
        else:
            return NOTHING, owner or package_of(value)
    if is_users_function(value):
        owner = None
    return value, owner


def _imported_in(function: Any, package: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a function imports when it is called: from libraries, and from the user."""
    found: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
    for statement in () if isinstance(function, ast.Lambda) else statements_in(function):
        if not isinstance(statement, (ast.Import, ast.ImportFrom)):
            continue
        within = (
            next(imports_in([statement], package), "") if type(statement) is ast.ImportFrom else ""
        )
        for alias in statement.names:
            path = within or (alias.name if alias.asname else alias.name.partition(".")[0])
            module = sys.modules.get(path)
            if is_module(module):
                value = module_dict(module).get(alias.name, NOTHING) if within else module
                bound = (alias.asname or alias.name).partition(".")[0]
                found[is_users_module(module)][bound] = value
    return found


def is_local(name: str, scope: Scope) -> bool:
    """Return whether a name is local to a function."""
    return isinstance(scope, ChainMap) and any(name in names for names in scope.maps[:-1])


def is_imported_in(name: str, scope: Scope) -> bool:
    """Return whether a function imports a name from a library."""
    return isinstance(scope, ChainMap) and name not in scope.maps[0] and name in scope.maps[1]


def scope_in(own: dict[str, Any], function: Any, scope: Scope) -> ChainMap[str, Any]:
    """Return the names visible in a function: locals, its imports, globals."""
    libraries, users = _imported_in(function, scope.get("__package__"))
    own = {name: value for name, value in own.items() if name not in libraries}
    return ChainMap(own, libraries, users, scope)  # type: ignore[arg-type]


def in_class(cls: type, name: str) -> Any:
    """Return an attribute from a class or its bases; NOTHING if they do not have it."""
    return next(
        (class_dict(base)[name] for base in mro_of(cls) if name in class_dict(base)), NOTHING
    )


def is_users_function(value: Any) -> bool:
    """Return whether an object is a user's function."""
    return type(value) is FunctionType and is_users(value)


def is_users_own(value: Any) -> bool:
    """Return whether an object or its class is the user's."""
    return is_users(value) or is_users(type(value))


def package_of(value: Any) -> str:
    """Return the top-level package of an object."""
    return _root(text_at(value, "__name__") if is_module(value) else module_name(value))


def _root(name: str | None) -> str:
    return (name or "builtins").partition(".")[0]


# ---- Which globals of a module does code use? All of them if it computes their names. -----------

# Names that IPython sets in the user's namespace: inputs, outputs, folders.
_OF_NOTEBOOKS = re.compile(
    r"In|Out|exit|quit|get_ipython|open|_+|_i+|_i?\d+|_(?:ih|oh|dh|sh)|_exit_code"
)
_MODULES = ("sys", "modules")
_WHOLE = ((1, 1_000_000),)
_MOST_FILES = 500


def follow(
    walk: "Walk", label: str, summary: CodeSummary, module: str, scope: Scope, file: str
) -> None:
    """Follow everything that some code names."""
    import_effects.reach(walk, module, scope)
    add_variables(walk, label, summary, scope)
    package = scope.get("__package__") or ""
    for name in imports_in(summary.imports, package):
        add_import(walk, name, file, package)
    add_chains(walk, module, scope, summary.chains, summary.handed)
    if summary.computes_names:
        add_scope(walk, module, scope)
    if _MODULES in [chain[:2] for chain in summary.chains]:
        _add_loaded(walk, summary, scope)


def add_variables(walk: "Walk", label: str, summary: CodeSummary, scope: Scope) -> None:
    """Add the environment variables that code reads."""
    walk.introspection.environment.note(summary, scope)
    for name in environment.variables_read(summary.looked_up, scope):
        if name is environment.COMPUTED:
            walk.leave_out(f"{label}: environment", "reads a variable by a computed name")
        else:
            walk.add_variable(name)


def add_chains(
    walk: "Walk", module: str, scope: Scope, chains: Iterable[Chain], handed: set[Chain]
) -> None:
    """Add the globals that code names."""
    for chain in sorted(chains):
        _add_chain(walk, module, scope, chain, documented=chain in handed)


def _add_chain(walk: "Walk", module: str, scope: Scope, chain: Chain, *, documented: bool) -> None:
    first, *rest = chain
    if first not in scope:
        if first not in walk.of_python:
            added = vars(builtins).get(first)
            if is_users(added) or is_users(type(added)):
                walk.add(f"builtins.{first}", added)
            else:
                walk.of_python.add(first)
        return  # a builtin, or not defined yet
    if chain[:2] == ("sys", "argv") and scope[first] is sys and not is_limpet_command():
        walk.add_form("sys.argv", [walk.normalizer.string(argument) for argument in sys.argv[1:]])
        return
    value, path = scope[first], walk.short(module, first)
    owner, name, where = scope, first, module
    while is_module(value) and rest:
        if not is_users_module(value):
            _add_library(walk, path, value, rest)
            return
        name = rest.pop(0)
        owner, where = module_dict(value), text_at(value, "__name__") or name
        import_effects.reach(walk, where, owner)
        if name not in owner:
            add_module(walk, value)
            return
        value, path = owner[name], walk.short(where, name)
    if not volatile.is_global(walk, where, owner, name):
        walk.add(path, value, documented=documented)


def _add_library(walk: "Walk", path: str, module: ModuleType, rest: list[str]) -> None:
    full = ".".join([text_at(module, "__name__") or "", *rest])
    walk.add_form(path, ["library", full])
    value: Any = module
    for name in rest:
        if not is_module(value):
            return
        value = module_dict(value).get(name)
    if is_users(value) or is_users(type(value)):  # the user assigned it
        walk.add(full, value)


def home_of(cls: type) -> tuple[Scope, str | None]:
    """Return the globals of the module that defines a class, and its file."""
    home = text_at(cls, "__module__") or ""
    module = sys.modules.get(home)
    if module is not None and is_module(module):
        file = module_dict(module).get("__file__")
        return module_dict(module), file if isinstance(file, str) else _file_of_methods(cls)
    return {}, _file_of_methods(cls) or file_of_module(home, "")


def _file_of_methods(cls: type) -> str | None:
    methods = (method for method in class_dict(cls).values() if type(method) is FunctionType)
    return next((method.__code__.co_filename for method in methods), None)


# ---- whole modules ------------------------------------------------------------------------------


def add_module(walk: "Walk", module: ModuleType) -> Any:
    """Add a whole module: it is passed around, so anything in it may be used."""
    if not is_users_module(module):
        return ["library", text_at(module, "__name__")]
    name = text_at(module, "__name__") or ""
    add_scope(walk, name, module_dict(module))
    return ["module", walk.short(name, "") or "its own"]


def add_scope(walk: "Walk", module: str, scope: Scope) -> None:
    """Add everything in a module."""
    label = f"module {module}"
    if label in walk.result.forms:
        return
    walk.add_form(label, ["module"])
    parsed = walk.sources.module(scope)
    if parsed is not None:
        summary = parsed.summary
        walk.result.forms[label] = ["module", summary.digest]
        walk.result.written[label] = (str(scope.get("__file__")), _WHOLE)
        add_variables(walk, label, summary, scope)
    for name, value in sorted(scope.items(), key=lambda entry: str(entry[0])):
        if not _is_kept_by_python(name, value, in_notebook=parsed is None):
            walk.defer(_add_global, walk, module, scope, name, value)


def _add_global(walk: "Walk", module: str, scope: Scope, name: str, value: Any) -> None:
    if not volatile.is_global(walk, module, scope, name):
        walk.add(walk.short(module, name), value)


def _is_kept_by_python(name: str, value: Any, *, in_notebook: bool) -> bool:
    if name.startswith("__") and name != "__getattr__":
        return True
    if is_module(value) and not is_users_module(value):
        return True
    ours = (text_at(type(value), "__module__") or "").partition(".")[0] == "limpet"
    return in_notebook and (ours or _OF_NOTEBOOKS.fullmatch(name) is not None)


def _add_loaded(walk: "Walk", summary: CodeSummary, scope: Scope) -> None:
    """Add the modules that code reads from `sys.modules`: by name, or all of the user's."""
    named: set[Any] = set()
    for chain, name in summary.looked_up:
        if chain[:2] == _MODULES:
            match name:
                case ast.Constant(value=str() as text):
                    named.add(text)
                case ast.Name(id=known) if type(scope.get(known)) is str:
                    named.add(scope[known])
                case _:
                    named.add(None)
    if not named or None in named:
        named = {*sys.modules}
    for name in sorted(named):
        module = sys.modules.get(name)
        if is_module(module) and is_users_module(module) and name != "__main__":
            add_module(walk, module)


# ---- imports ------------------------------------------------------------------------------------


def add_import(walk: "Walk", name: str, importer: str, package: str) -> None:
    """Add a module that code of a package imports when it runs, and everything it imports."""
    walk.imported.add(name)
    if name.endswith("*"):
        _add_files_below(walk, name[:-2], importer, package)
        return
    loaded = sys.modules.get(name)
    if is_module(loaded) and is_users_module(loaded) and name != "__main__":
        add_scope(walk, name, module_dict(loaded))
    found = file_of_module(name, importer, walk.find_module)
    if found is not None:
        add_file(walk, name, found)


def _add_files_below(walk: "Walk", name: str, importer: str, package: str) -> None:
    found = modules_below(name, importer, walk.find_module)
    if len(found) > _MOST_FILES:
        why = f"imports a module by a computed name: the first {_MOST_FILES} files count"
        walk.leave_out(f"{Path(importer).name}: {len(found)} files", why)
    for below, file in found[:_MOST_FILES]:
        add_file(walk, ".".join(filter(None, (name or package, below))) or "__init__", file)


def add_file(walk: "Walk", name: str, file: str) -> None:
    """Add a source file, and everything it imports."""
    label = f"file of {name}"
    if (label, file) in walk.files or not is_users_file(file):
        return
    walk.files.add((label, file))
    parsed = walk.sources.current_file(file)
    if parsed is None:
        walk.add_form(label, ["unreadable"])
        return
    summary = parsed.summary
    kept = walk.add_form(label, ["module", summary.digest])
    walk.result.written[kept] = (file, _WHOLE)
    add_variables(walk, label, summary, {})
    package = name if Path(file).name == "__init__.py" else name.rpartition(".")[0]
    for imported in sorted(set(imports_in(summary.imports, package))):
        add_import(walk, imported, file, package)


def is_limpet_command() -> bool:
    """Return whether this process runs the `limpet` command, not a user's script."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    named = spec is not None and spec.name.startswith("limpet")
    return Path(sys.argv[0] or "-").name == "limpet" or named
