"""What did a script do before it started the run?

It may have configured a library, `configure(args.model)`, at the top, under `if __name__ ==
"__main__":`, or in the functions that lead to the run. The workflow's code does not name that. So
the code that ran before the current line counts if it changes objects other than the script's.

A worker does not run the code under `if __name__ == "__main__":`, but it has the script's
environment and working directory. If a step names neither `random` nor an installed package that
may use it, seeding `random` does not matter; nor does setting a context variable that the step does
not name.
"""

import ast
import functools
import os
import sys
import sysconfig
import threading
from collections.abc import Iterator
from contextvars import ContextVar
from pathlib import Path
from types import FrameType
from typing import Any

from limpet.fingerprints.code.canonical_text import CodeSummary
from limpet.fingerprints.code.statements import SIMPLE, assignments, children, imports_in
from limpet.fingerprints.walk import import_effects, scopes, volatile
from limpet.fingerprints.walk.ownership import is_module, is_users_file, is_users_module
from limpet.fingerprints.walk.safe_access import is_a, module_dict
from limpet.fingerprints.walk.side_effects import Scope, SideEffects, resolved, scope_in
from limpet.fingerprints.walk.walk import Walk

BEFORE_RUN = "script: what it does before the run"
"""The prefix of such parts' names."""
_HEADERS = ("test", "iter", "items", "subject")
_OF_PYTHON = {*sys.stdlib_module_names, "limpet"}


def reach_script(walk: Walk) -> None:
    """Add the side effects of the script that started this process."""
    main = sys.modules.get("__main__")
    if not is_module(main) or scopes.is_limpet_command():
        return
    scope = module_dict(main)
    file = scope.get("__file__")
    if type(file) is not str or not file.endswith(".py") or not is_users_file(file):
        return
    if Path(file).parent == Path(sysconfig.get_path("scripts")):
        return
    import_effects.reach(walk, "__main__", scope)
    if walk.for_worker:
        walk.finish()  # now everything that the step reaches is known
    for frame in _frames_of_script(scope):
        _add_before_run(walk, frame)


def _frames_of_script(scope: dict[str, Any]) -> list[FrameType]:
    """Return the user's running frames that led here, up to the script's module."""
    stacks = sys._current_frames()  # noqa: SLF001 - no public alternative
    for thread in (threading.get_ident(), threading.main_thread().ident):
        frame = stacks.get(thread or 0)
        found: list[FrameType] = []
        ours = False
        while frame is not None:
            if str(frame.f_globals.get("__name__")).partition(".")[0] == "limpet":
                ours = True
            elif ours and is_users_file(frame.f_code.co_filename):
                found.append(frame)
                if frame.f_globals is scope and frame.f_code.co_name == "<module>":
                    del frame, stacks  # it may be this frame, and would keep itself alive
                    return found
            frame = frame.f_back
    del stacks
    return []


def _add_before_run(walk: Walk, frame: FrameType) -> None:
    code, scope = frame.f_code, frame.f_globals
    own: dict[str, Any] = {}
    node: Any = None
    if code.co_name == "<module>":
        parsed = walk.sources.module(scope)
        body = [] if parsed is None else parsed.tree.body
        # Completed top-level statements count as import effects.
        at = [statement for statement in body if (statement.end_lineno or 0) >= frame.f_lineno]
        body = at[:1]
    else:
        node = walk.sources.definition_of(code)
        body = [] if node is None or isinstance(node, ast.Lambda) else node.body
        own = dict(frame.f_locals)
    visible: Any = scope_in(own, node or ast.Module([], []), scope)
    done: list[ast.AST] = []
    for part in _ran_before(body, frame.f_lineno):
        if isinstance(part, (ast.Import, ast.ImportFrom)):
            _follow_imports(walk, part, scope)
        elif isinstance(part, ast.stmt):
            done += import_effects.parts_that_change(walk, part, visible)
        elif walk.side_effects.changes(part, visible) and not import_effects.starts_runs(
            part, visible
        ):
            done.append(part)
    if walk.for_worker:
        effects = SideEffects(
            walk.sources, functools.partial(_is_elsewhere, walk, _may_use_random(walk))
        )
        done = [part for part in done if effects.changes(part, visible)]
    if not done:
        return
    inside = "" if code.co_name == "<module>" else f" in {code.co_name}"
    label = f"{BEFORE_RUN}{inside}"
    summary = import_effects.add_code(
        walk, label, done, str(scope.get("__name__", "")), scope, code.co_filename
    )
    _add_locals(walk, label, summary, own, assignments(body), scope)


def _may_use_random(walk: Walk) -> bool:
    """Return whether a step may use `random`: by name, through a package, or by a computed name."""
    used = walk.packages() | {name.partition(".")[0] for name in walk.imported}
    # A part for an entire module means that code computes names in it.
    modules = [
        name
        for name, form in walk.result.forms.items()
        if type(form) is list and form[:1] == ["module"]
    ]
    computes_names = any(name.startswith("module ") for name in modules)
    return computes_names or "random" in used or not used <= _OF_PYTHON


def _is_elsewhere(
    walk: Walk,
    may_use_random: bool,  # noqa: FBT001 - private
    chain: tuple[str, ...],
    scope: Scope,
) -> bool:
    """Return whether a worker has the change too, or the step does not reach it."""
    value, owner = resolved(chain, scope)
    if owner == "os" and value in (os.chdir, os.putenv, os.unsetenv):
        return True
    if owner == "random" and chain[-1] == "seed":
        return not may_use_random
    if value is os.environ:
        return True
    held, owner = resolved(chain[:-1], scope) if len(chain) > 1 else (None, None)
    if type(held) is ContextVar and chain[-1] == "set":
        return owner is None and not walk.has_visited(held)
    return held is os.environ


def _ran_before(body: list[Any], line: int) -> Iterator[ast.AST]:
    """Yield the code that ran before a line: statements, and headers of enclosing ones."""
    for statement in body:
        first, last = statement.lineno, statement.end_lineno
        if last < line:
            yield statement
        elif first <= line and type(statement) in SIMPLE:
            yield from _evaluated_first(statement)
        elif first <= line and type(statement) not in SIMPLE:
            for header in _HEADERS:
                found = getattr(statement, header, None)
                for part in found if isinstance(found, list) else [found]:
                    part = getattr(part, "context_expr", part)  # noqa: PLW2901
                    if part is not None and not part.lineno <= line <= part.end_lineno:
                        yield part
            yield from _ran_before(
                [child for child in children(statement) if hasattr(child, "lineno")], line
            )


def _evaluated_first(statement: Any) -> Iterator[ast.AST]:
    """Yield `Runner("m1")` of `Runner("m1").go()`."""
    node = getattr(statement, "value", None)
    node = node.value if isinstance(node, ast.Await) else node
    node = node.func if isinstance(node, ast.Call) else None
    while isinstance(node, ast.Attribute):
        node = node.value
    if isinstance(node, ast.Call):
        yield node


def _follow_imports(walk: Walk, node: ast.Import | ast.ImportFrom, scope: dict[str, Any]) -> None:
    for name in imports_in([node], scope.get("__package__")):
        loaded = sys.modules.get(name)
        if is_module(loaded) and is_users_module(loaded):
            walk.defer(import_effects.reach, walk, name, module_dict(loaded))


def _add_locals(
    walk: Walk,
    label: str,
    summary: CodeSummary,
    own: dict[str, Any],
    assigned: dict[str, list[ast.expr]],
    scope: dict[str, Any],
) -> None:
    """Add the locals that were passed to objects other than the script's."""
    for chain in sorted(summary.chains):
        first = chain[0]
        if first not in own or is_module(own[first]):
            continue
        part = f"{label}: {first}"
        if len(chain) > 1 and is_a(own[first], *import_effects.SPACES):
            walk.add(f"{part}.{chain[1]}", vars(own[first]).get(chain[1]))
        elif volatile.is_by_source(walk, own[first], assigned.get(first, []), scope):
            walk.leave_out_volatile(part)
        else:
            walk.add(part, own[first])
