"""Does any visited code read docstrings, source, frames, subclasses or the environment?

Docstrings, comments and names of locals do not count unless code reads them. That is known only
after all code has been visited.
"""

import ast
from collections.abc import Callable, Mapping
from types import CodeType
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.code import canonical_text as summary
from limpet.fingerprints.code import syntax
from limpet.fingerprints.walk import environment, scopes
from limpet.fingerprints.walk.ownership import is_users
from limpet.fingerprints.walk.result import UNSEEN_FILE, UNSEEN_VARIABLE
from limpet.fingerprints.walk.safe_access import plain_name

if TYPE_CHECKING:
    from limpet.fingerprints.walk.walk import Walk


class Introspection:
    """What the code visited so far inspects.

    Attributes:
        environment: How it uses the environment.
        getters: Names of functions that read the environment variable named by their argument.
    """

    def __init__(self) -> None:
        self.getters: set[str] = set()
        self.environment = environment.EnvironmentUse()
        self._noticed: set[str] = set()
        self._documentation: dict[str, Any] = {}
        self._hinted: list[tuple[list[ast.expr], Mapping[str, Any]]] = []
        self._functions: list[tuple[str, Callable[[], str], CodeType]] = []
        self._classes: list[tuple[str, type]] = []
        self._calls: set[tuple[str, str]] = set()

    def note(self, code: summary.CodeSummary) -> None:
        """Note what some code inspects."""
        self._noticed |= code.notices
        for chain, name in code.looked_up:
            if type(name) is ast.Constant and type(name.value) is str:
                self._calls.add((chain[-1], name.value))

    def notice_everything(self) -> None:
        """Assume that docstrings are read: some code has no source."""
        self._noticed.add(summary.DOCUMENTATION)

    def add_function(self, label: str, text: Callable[[], str], code: CodeType) -> None:
        """Remember a function, and a callable that gives its source."""
        self._functions.append((label, text, code))

    def add_class(self, label: str, cls: type) -> None:
        """Remember a class."""
        self._classes.append((label, cls))

    def document(
        self, walk: "Walk", label: str, node: ast.AST, scope: Mapping[str, Any], *, counts: bool
    ) -> None:
        """Add a docstring and hints if they count; else remember them."""
        text, fields = summary.documentation_of(node), summary.fields_of(node)
        hints = summary.hints_of(node)
        if counts:  # the hints of a class are in the text of its body
            walk.result.forms |= {} if text is None else {f"{label}.__doc__": text}
            _follow_hints(walk, hints, scope)
            return
        self._documentation |= {} if text is None else {f"{label}.__doc__": text}
        self._documentation |= {f"{label}.__annotations__": fields} if fields else {}
        if hints:
            self._hinted.append((hints, scope))

    def finish(self, walk: "Walk") -> None:
        """Add what the visited code inspects. New objects go to the queue of the walk."""
        forms = walk.result.forms
        if summary.DOCUMENTATION in self._noticed:
            forms.update(self._documentation)
            self._follow_all_hints(walk)
        if summary.SOURCE in self._noticed:
            for label, text, _ in self._functions:
                forms[f"{label} as written"] = text()
        if summary.FRAMES in self._noticed:
            for label, _, code in self._functions:
                forms[f"{label}: names of locals"] = [*code.co_varnames, *code.co_cellvars]
        if summary.SUBCLASSES in self._noticed:
            classes, self._classes = self._classes, []
            for label, cls in classes:
                subclasses: list[type] = type.__subclasses__(cls)
                below = [subclass for subclass in subclasses if is_users(subclass)]
                forms[f"{label}.__subclasses__"] = [
                    walk.form(plain_name(subclass), subclass) for subclass in below
                ]
        self._note_unseen(walk)
        named = {name for getter, name in self._calls if getter in self.getters}
        for name in sorted(named.union(self.environment.names(forms))):
            walk.add_variable(name)

    def _note_unseen(self, walk: "Walk") -> None:
        if summary.LOOKS in self._noticed:
            walk.leave_out("exists, stat and the like", UNSEEN_FILE)
        if self.environment.computes_names:
            walk.leave_out("a variable with a computed name", UNSEEN_VARIABLE)

    def _follow_all_hints(self, walk: "Walk") -> None:
        hinted, self._hinted = self._hinted, []
        for hints, scope in hinted:
            _follow_hints(walk, hints, scope)


def _follow_hints(walk: "Walk", hints: list[ast.expr], scope: Mapping[str, Any]) -> None:
    if hints:
        hinted = syntax.read_hints(hints)
        scopes.add_chains(walk, str(scope.get("__name__", "")), scope, hinted.chains, set())
