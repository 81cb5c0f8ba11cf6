"""Which parts has a module or a file that counts in full?

Anything in a module that is passed around may be used. A file that code imports when it runs is
read, not imported: importing it may do anything.
"""

import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from limpet.fingerprints.code.canonical_text import CodeSummary
from limpet.fingerprints.code.statements import file_of_module, imports_in, modules_below
from limpet.fingerprints.walk import environment, volatile
from limpet.fingerprints.walk.ownership import is_module, is_users_file, is_users_module
from limpet.fingerprints.walk.safe_access import module_dict, text_at
from limpet.fingerprints.walk.walk import Walk

Scope = Mapping[str, Any]
# Names that IPython sets in the user's namespace: inputs, outputs, folders.
_OF_NOTEBOOKS = re.compile(
    r"In|Out|exit|quit|get_ipython|open|_+|_i+|_i?\d+|_(?:ih|oh|dh|sh)|_exit_code"
)
_WHOLE = ((1, 1_000_000),)
_MOST_FILES = 500


def add_module(walk: Walk, module: ModuleType) -> Any:
    """Add everything in a module that is passed around."""
    if not is_users_module(module):
        return ["library", text_at(module, "__name__")]
    name = text_at(module, "__name__") or ""
    add_scope(walk, name, module_dict(module))
    return ["module", walk.short(name, "") or "its own"]


def add_scope(walk: Walk, module: str, scope: Scope) -> None:
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


def _add_global(walk: Walk, module: str, scope: Scope, name: str, value: Any) -> None:
    if not volatile.is_global(walk, module, scope, name):
        walk.add(walk.short(module, name), value)


def _is_kept_by_python(name: str, value: Any, *, in_notebook: bool) -> bool:
    if name.startswith("__") and name != "__getattr__":
        return True
    if is_module(value) and not is_users_module(value):
        return True
    ours = (text_at(type(value), "__module__") or "").partition(".")[0] == "limpet"
    return in_notebook and (ours or _OF_NOTEBOOKS.fullmatch(name) is not None)


def add_variables(walk: Walk, label: str, summary: CodeSummary, scope: Scope) -> None:
    """Add the environment variables that code reads."""
    walk.environment.record(summary, scope)
    for name in environment.variables_read(summary.looked_up, scope):
        if name is environment.COMPUTED:
            walk.leave_out(f"{label}: environment", "reads a variable by a computed name")
        else:
            walk.add_variable(name)


def add_import(walk: Walk, name: str, importer: str, package: str) -> None:
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


def _add_files_below(walk: Walk, name: str, importer: str, package: str) -> None:
    found = modules_below(name, importer, walk.find_module)
    if len(found) > _MOST_FILES:
        why = f"imports a module by a computed name: the first {_MOST_FILES} files count"
        walk.leave_out(f"{Path(importer).name}: {len(found)} files", why)
    for below, file in found[:_MOST_FILES]:
        add_file(walk, ".".join(filter(None, (name or package, below))) or "__init__", file)


def add_file(walk: Walk, name: str, file: str) -> None:
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
