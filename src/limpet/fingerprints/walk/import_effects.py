"""What did a module do when it was imported, besides assigning its names?

It may have changed a library: a setting, a registry, a method. Code that uses the library does not
name that change. So the side effects of a module count as soon as anything in it counts, and so do
those of the modules it imports.
"""

import argparse
import ast
import re
import sys
from collections.abc import Mapping
from types import FrameType, FunctionType, SimpleNamespace
from typing import Any

from limpet.fingerprints.code import syntax
from limpet.fingerprints.code.canonical_text import FUNCTIONS, CodeSummary
from limpet.fingerprints.code.parsed import Parsed, lines_of
from limpet.fingerprints.code.statements import (
    file_of_module,
    imports_in,
    may_have_effects,
    registered_by,
)
from limpet.fingerprints.walk import modules
from limpet.fingerprints.walk.ownership import is_module, is_users, is_users_file, is_users_module
from limpet.fingerprints.walk.safe_access import is_a, module_dict, module_name, text_at
from limpet.fingerprints.walk.walk import Walk

Scope = Mapping[str, Any]
SPACES = (argparse.Namespace, SimpleNamespace)
# These register steps of a run, by package: they count for that step alone.
_REGISTERS_STEPS = {"nat": "register_evaluator"}
_LIMPET = __name__.partition(".")[0]
_MAY_SET = r"(?<![\w.])%s\.\w+[^\n]*?(?<![=!<>])=(?!=)|\b(?:as|for)\b[^\n]*?(?<![\w.])%s\."


def reach(walk: Walk, module: str, scope: Scope) -> None:
    """Add the side effects of importing a module."""
    if module in walk.reached:
        return
    walk.reached.add(module)
    file = scope.get("__file__")
    if not isinstance(file, str) or not is_users_file(file):
        return
    parsed = walk.sources.module(scope)
    if parsed is not None:
        _add_effects(walk, module, scope, parsed, file)
        _add_library_attributes(walk, scope, parsed)
        _follow_imports(walk, scope, parsed, file)
    _reach_parent(walk, module)


def _reach_parent(walk: Walk, module: str) -> None:
    above = module.rpartition(".")[0]
    package = sys.modules.get(above)
    if above and is_module(package):
        reach(walk, above, module_dict(package))


def _add_effects(walk: Walk, module: str, scope: Scope, parsed: Parsed, file: str) -> None:
    at = _line_that_runs(scope)
    done = [
        part
        for statement in parsed.effects
        if at is None or (statement.end_lineno or 0) < at
        for part in parts_that_change(walk, statement, scope)
    ]
    if not done:
        return
    label = f"module {walk.short(module, '') or 'itself'}: what it does".replace(".:", ":")
    add_code(walk, label, done, module, scope, file)


def add_code(
    walk: Walk, label: str, done: list[Any], module: str, scope: Scope, file: str
) -> CodeSummary:
    """Add code that ran before a run as a part, with everything it names."""
    summary = syntax.read(*done)
    kept = walk.add_form(label, ["code", summary.digest])
    walk.result.written[kept] = (file, tuple(map(lines_of, done)))
    summary.handed.clear()  # docstrings of functions called at import do not count
    chains = set(summary.chains)
    for chain in chains:  # of parsed arguments, only those that are used
        space = scope.get(chain[0])
        if len(chain) > 1 and is_a(space, *SPACES):
            summary.chains.discard(chain)
            walk.add(f"{chain[0]}.{chain[1]}", vars(space).get(chain[1]))
    walk.follow(label, summary, module, scope, file)
    summary.chains = chains
    return summary


def parts_that_change(walk: Walk, statement: ast.stmt, scope: Scope) -> list[ast.AST]:
    """Return the parts of a statement that change objects outside the module.

    The module's own objects count where they are used. Statements that start a run are omitted: a
    script may start several.
    """
    if isinstance(statement, ast.ClassDef):
        header = [*statement.decorator_list, *statement.bases, *statement.keywords]
        alone = ast.ClassDef(
            statement.name, statement.bases, statement.keywords, [], statement.decorator_list
        )
        found: list[ast.AST] = [*header] if walk.side_effects.changes(alone, scope) else []
        body = filter(may_have_effects, statement.body)
        found += [part for inner in body for part in parts_that_change(walk, inner, scope)]
    elif isinstance(statement, FUNCTIONS):
        if any(_registers_steps(scope.get(name)) for name in registered_by(statement)):
            return []
        defaults = [*statement.args.defaults, *filter(None, statement.args.kw_defaults)]
        found = [*statement.decorator_list, *defaults]
        found = found if walk.side_effects.changes(statement, scope) else []
    else:
        counts = walk.side_effects.changes(statement, scope) and not starts_runs(statement, scope)
        return [statement] if counts else []
    if walk.side_effects.registers(statement, scope):
        return [statement]
    registries = registered_by(statement)
    if registries and all(_belongs_to_library(scope.get(name)) for name in registries):
        return [statement]
    return found


def starts_runs(statement: ast.AST, scope: Scope) -> bool:
    """Return whether a statement starts a run, directly or through a user's function."""
    chains = syntax.read(statement).chains
    return any(_starts_runs(scope.get(chain[0])) for chain in chains if chain[0] in scope)


def _starts_runs(thing: Any) -> bool:
    if is_a(thing, FunctionType) and is_users(thing):
        named = [thing.__globals__.get(name) for name in thing.__code__.co_names]
        return any(_is_limpet(used) for used in named)
    return _is_limpet(thing)


def _is_limpet(thing: Any) -> bool:
    name = text_at(thing, "__name__") if is_module(thing) else module_name(thing)
    return (name or "").partition(".")[0] == _LIMPET


def _registers_steps(decorator: Any) -> bool:
    package = (module_name(decorator) or "").partition(".")[0]
    name = _REGISTERS_STEPS.get(package)
    return name is not None and text_at(decorator, "__name__") == name


def _belongs_to_library(registry: Any) -> bool:
    """Return whether a registry belongs to a library; the user's own counts where it is used."""
    if is_module(registry):
        return not is_users_module(registry)
    return not is_users(registry) and not is_users(type(registry))


def _line_that_runs(scope: Scope) -> int | None:
    """Return the current line of a module that is still running; None if it is done.

    A script that starts a run is still running. Its later lines do not affect the results.
    """
    for innermost in sys._current_frames().values():  # noqa: SLF001 - all threads
        frame: FrameType | None = innermost
        while frame is not None:
            if frame.f_code.co_name == "<module>" and frame.f_globals is scope:
                return frame.f_lineno
            frame = frame.f_back
        del innermost  # it may be this frame, and would keep itself alive
    return None


def _add_library_attributes(walk: Walk, scope: Scope, parsed: Parsed) -> None:
    """Add the attributes of libraries that the module sets: `openai.base_url = …`."""
    imported = {_bound(alias) for statement in parsed.imports for alias in statement.names}
    libraries = {name for name in imported if _is_library_module(scope.get(name))}
    for name, attribute in _set_in(parsed, libraries):
        library = scope[name]
        path, held = f"{text_at(library, '__name__')}.{attribute}", module_dict(library)
        if attribute in held:
            walk.add(path, held[attribute])
        else:
            walk.add_form(path, ["not there"])


def _is_library_module(thing: Any) -> bool:
    return is_module(thing) and not is_users_module(thing)


def _set_in(parsed: Parsed, libraries: set[str]) -> list[tuple[str, str]]:
    """Return the libraries and attributes that code assigns, as in `name.attribute = …`."""
    named = [name for name in libraries if f"{name}." in parsed.text]
    if not any(re.search(_MAY_SET % (name, name), parsed.text) for name in named):
        return []  # most files: no need to check each node
    found = {
        (node.value.id, node.attr)
        for node in ast.walk(parsed.tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and isinstance(node.value, ast.Name)
    }
    return sorted(pair for pair in found if pair[0] in libraries)


def _follow_imports(walk: Walk, scope: Scope, parsed: Parsed, file: str) -> None:
    for statement in parsed.imports:
        found = [*imports_in([statement], scope.get("__package__"))]
        users = [name for name in found if not _is_library(name)]
        if not users:
            continue
        used = any(parsed.uses(_bound(alias)) for alias in statement.names)
        for name in users:
            loaded = sys.modules.get(name)
            if not used:  # it is imported for its side effects
                _add_file(walk, name, file)
                _reach_parent(walk, name)
            elif is_module(loaded):
                walk.defer(reach, walk, name, module_dict(loaded))


def _is_library(module: str) -> bool:
    return _is_library_module(sys.modules.get(module))


def _bound(alias: ast.alias) -> str:
    return (alias.asname or alias.name).partition(".")[0]


def _add_file(walk: Walk, name: str, importer: str) -> None:
    found = file_of_module(name, importer, walk.find_module)
    if found is not None:
        walk.defer(modules.add_file, walk, name, found)
