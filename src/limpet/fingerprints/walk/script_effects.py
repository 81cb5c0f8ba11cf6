"""What did a script do before it started the run?

It may have set up a library, `configure(args.model)`, at its top, under `if __name__ ==
"__main__":`, or in the functions that lead to the run. Nobody who is called names that. Of the code
that is going on, what came before the line that it is at counts, as far as it changes what is not
the script's own.
"""

import ast
import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.code.imports import imports_in
from limpet.fingerprints.code.statements import SIMPLE, assignments, children
from limpet.fingerprints.code.summary import CodeSummary
from limpet.fingerprints.walk import import_effects, scopes, volatile
from limpet.fingerprints.walk.name_lookup import scope_in
from limpet.fingerprints.walk.ownership import is_module, is_users_file, is_users_module
from limpet.fingerprints.walk.safe_access import is_a, names_of

if TYPE_CHECKING:
    from limpet.fingerprints.walk.walk import Walk

_HEADERS = ("test", "iter", "items", "subject")


def reach_script(walk: "Walk") -> None:
    """Let count what the script that started this process did so far."""
    main = sys.modules.get("__main__")
    if not is_module(main) or scopes.is_our_command():
        return
    scope = names_of(main)
    file = scope.get("__file__")
    if type(file) is not str or not file.endswith(".py") or not is_users_file(file):
        return
    if Path(file).parent == Path(sysconfig.get_path("scripts")):
        return
    import_effects.reach(walk, "__main__", scope)
    for frame in _frames_of_script(scope):
        _before_run(walk, frame)


def _frames_of_script(scope: dict[str, Any]) -> list[FrameType]:
    """Return the user's code that is going on and led here, from the script's module on."""
    stacks = sys._current_frames()  # noqa: SLF001 - there is no other way
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
                    del frame, stacks  # one of them is this one: it would hold itself
                    return found
            frame = frame.f_back
    del stacks
    return []


def _before_run(walk: "Walk", frame: FrameType) -> None:
    code, scope = frame.f_code, frame.f_globals
    own: dict[str, Any] = {}
    node: Any = None
    if code.co_name == "<module>":
        parsed = walk.sources.module(scope)
        body = [] if parsed is None else parsed.tree.body
        # What is over at its top level counts as what every module does.
        at = [statement for statement in body if (statement.end_lineno or 0) >= frame.f_lineno]
        body = at[:1]
    else:
        node = walk.sources.definition_of(code)
        body = [] if node is None or isinstance(node, ast.Lambda) else node.body
        own = dict(frame.f_locals)
    every: Any = scope_in(own, node or ast.Module([], []), scope)
    done: list[ast.AST] = []
    for part in _over(body, frame.f_lineno):
        if isinstance(part, (ast.Import, ast.ImportFrom)):
            _imports(walk, part, scope)
        elif isinstance(part, ast.stmt):
            done += import_effects.parts_that_change(walk, part, every)
        elif walk.side_effects.changes(part, every) and not import_effects.makes_runs(part, every):
            done.append(part)
    if not done:
        return
    place = "" if code.co_name == "<module>" else f" in {code.co_name}"
    label = f"script: what it does before the run{place}"
    summary = import_effects.let_count(
        walk, label, done, str(scope.get("__name__", "")), scope, code.co_filename
    )
    _locals(walk, label, summary, own, assignments(body), scope)


def _over(body: list[Any], line: int) -> Iterator[ast.AST]:
    """Yield what was run before a line: whole statements, and what those begin with it is in."""
    for statement in body:
        first, last = statement.lineno, statement.end_lineno
        if last < line:
            yield statement
        elif first <= line and type(statement) in SIMPLE:
            yield from _made_first(statement)
        elif first <= line and type(statement) not in SIMPLE:
            for header in _HEADERS:
                found = getattr(statement, header, None)
                for part in found if isinstance(found, list) else [found]:
                    part = getattr(part, "context_expr", part)  # noqa: PLW2901
                    if part is not None and not part.lineno <= line <= part.end_lineno:
                        yield part
            yield from _over(
                [child for child in children(statement) if hasattr(child, "lineno")], line
            )


def _made_first(statement: Any) -> Iterator[ast.AST]:
    """Yield `Runner("m1")` of `Runner("m1").go()`."""
    node = getattr(statement, "value", None)
    node = node.value if isinstance(node, ast.Await) else node
    node = node.func if isinstance(node, ast.Call) else None
    while isinstance(node, ast.Attribute):
        node = node.value
    if isinstance(node, ast.Call):
        yield node


def _imports(walk: "Walk", node: ast.Import | ast.ImportFrom, scope: dict[str, Any]) -> None:
    for name in imports_in([node], scope.get("__package__")):
        loaded = sys.modules.get(name)
        if is_module(loaded) and is_users_module(loaded):
            walk.defer(import_effects.reach, walk, name, names_of(loaded))


def _locals(
    walk: "Walk",
    label: str,
    summary: CodeSummary,
    own: dict[str, Any],
    assigned: dict[str, list[ast.expr]],
    scope: dict[str, Any],
) -> None:
    """Let the locals count that were given to what is not the script's own."""
    for chain in sorted(summary.chains):
        first = chain[0]
        if first not in own or is_module(own[first]):
            continue
        place = f"{label}: {first}"
        if len(chain) > 1 and is_a(own[first], *import_effects.SPACES):
            walk.use(f"{place}.{chain[1]}", vars(own[first]).get(chain[1]))
        elif volatile.is_local(walk, own[first], assigned.get(first, []), scope):
            walk.leave_out_volatile(place)
        else:
            walk.use(place, own[first])
