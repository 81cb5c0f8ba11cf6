"""Which globals of a module does code use? All of them if it computes their names."""

import ast
import builtins
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from limpet.fingerprints.code.canonical_text import Chain, CodeSummary
from limpet.fingerprints.code.statements import imports_in
from limpet.fingerprints.walk import import_effects, modules, volatile
from limpet.fingerprints.walk.ownership import is_module, is_users, is_users_module
from limpet.fingerprints.walk.safe_access import module_dict, text_at
from limpet.fingerprints.walk.walk import Walk

Scope = Mapping[str, Any]
_MODULES = ("sys", "modules")


def follow(
    walk: Walk, label: str, summary: CodeSummary, module: str, scope: Scope, file: str
) -> None:
    """Follow everything that some code names."""
    walk.notices |= summary.notices
    for chain, argument in summary.looked_up:
        if type(argument) is ast.Constant and type(argument.value) is str:
            walk.calls.add((chain[-1], argument.value))
    import_effects.reach(walk, module, scope)
    modules.add_variables(walk, label, summary, scope)
    package = scope.get("__package__") or ""
    for name in imports_in(summary.imports, package):
        modules.add_import(walk, name, file, package)
    add_chains(walk, module, scope, summary.chains, summary.handed)
    if summary.computes_names:
        modules.add_scope(walk, module, scope)
    if _MODULES in [chain[:2] for chain in summary.chains]:
        _add_loaded(walk, summary, scope)


def add_chains(
    walk: Walk, module: str, scope: Scope, chains: Iterable[Chain], handed: set[Chain]
) -> None:
    """Add the globals that code names."""
    for chain in sorted(chains):
        _add_chain(walk, module, scope, chain, documented=chain in handed)


def _add_chain(walk: Walk, module: str, scope: Scope, chain: Chain, *, documented: bool) -> None:
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
            modules.add_module(walk, value)
            return
        value, path = owner[name], walk.short(where, name)
    if not volatile.is_global(walk, where, owner, name):
        walk.add(path, value, documented=documented)


def _add_library(walk: Walk, path: str, module: ModuleType, rest: list[str]) -> None:
    full = ".".join([text_at(module, "__name__") or "", *rest])
    walk.add_form(path, ["library", full])
    value: Any = module
    for name in rest:
        if not is_module(value):
            return
        value = module_dict(value).get(name)
    if is_users(value) or is_users(type(value)):  # the user assigned it
        walk.add(full, value)


def _add_loaded(walk: Walk, summary: CodeSummary, scope: Scope) -> None:
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
            modules.add_module(walk, module)


def is_limpet_command() -> bool:
    """Return whether this process runs the `limpet` command, not a user's script."""
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    named = spec is not None and spec.name.startswith("limpet")
    return Path(sys.argv[0] or "-").name == "limpet" or named
