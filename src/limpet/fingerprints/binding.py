"""Whose name is it: a local, one of a function around, or the module's?

Names are written into the text as places, and filled in when their scope ends and all that binds
them is known: a local's name is a number there, so that renaming it changes nothing.
"""

import operator

from limpet.fingerprints.reading import Chain, Reading

_READS_LOCALS = {"locals", "vars", "eval", "exec", "dir"}
COMPUTES_NAMES = {"globals", "eval", "exec", "vars", "compile"}
"""Who calls these may reach anything in its module."""

_Use = tuple[int, str, Chain | None, bool]
"""A name in the text: at which token, which name, what is read off it, whether it is called."""


_place = operator.itemgetter(0)


class Scope:
    """Names in one function, class or comprehension: who binds them is known at its end."""

    __slots__ = ("bound", "defined", "fixed", "kind", "of_module", "outer", "parent", "uses")

    def __init__(self, kind: str, parent: "Scope | None") -> None:
        self.kind = kind
        self.parent = parent
        self.bound: set[str] = set()
        self.defined: set[str] = set()  # bound by a def: it keeps its name if others get it
        self.fixed: set[str] = set()  # bound, and keeps its name: a parameter, an import
        self.of_module: set[str] = set()  # declared global
        self.outer: set[str] = set()  # declared nonlocal
        self.uses: list[_Use] = []


class Names:
    """The text of a piece of code, and the names in it."""

    def __init__(self) -> None:
        self.tokens: list[str] = []
        self.found = Reading()
        self.module = self.scope = Scope("module", None)
        self.returned: set[int] = set()  # at which tokens a name is handed back
        self._locals = 0

    def use(self, name: str, chain: Chain | None, *, called: bool = False) -> None:
        """Write a name, and what is read off it."""
        self.scope.uses.append((len(self.tokens), name, chain, called))
        self.tokens.append("")

    def bind(self, name: str) -> None:
        """Write a name that gets a value here."""
        self.scope.bound.add(name)
        self.use(name, None)

    def enter(self, kind: str) -> None:
        """Begin a scope."""
        self.tokens.append("{")
        self.scope = Scope(kind, self.scope)

    def leave(self) -> None:
        """End a scope: now it is known which names are its own."""
        self.tokens.append("}")
        scope = self.scope
        assert scope.parent is not None
        self.scope = scope.parent
        named = scope.kind == "class" or not _READS_LOCALS.isdisjoint(
            [use[1] for use in scope.uses]
        )
        numbers: dict[str, str] = {}
        tokens, fixed = self.tokens, scope.fixed
        own = scope.bound - scope.of_module - scope.outer
        if scope.defined:
            fixed |= {
                name
                for at, name, chain, called in scope.uses
                if name in scope.defined and chain and not called and at not in self.returned
            }
        for use in scope.uses:
            name = use[1]
            if name not in own:
                outer = self.module if name in scope.of_module else scope.parent
                outer.uses.append(use)
            elif named or name in fixed:
                tokens[use[0]] = name
            else:
                if name not in numbers:
                    numbers[name] = f"%{self._locals}"
                    self._locals += 1
                tokens[use[0]] = numbers[name]

    def finish(self, free: frozenset[str]) -> Reading:
        """Return what was found, when all is written."""
        found, tokens = self.found, self.tokens
        for at, name, chain, called in sorted(self.scope.uses, key=_place):
            if name in free:
                tokens[at] = f"^{found.free.setdefault(name, len(found.free))}"
                continue
            tokens[at] = name
            if chain is None:
                continue
            found.chains.add(chain)
            if not called:
                found.handed.add(chain)
            if name in COMPUTES_NAMES:
                found.computes_names = True
        found.text = "\x1f".join(tokens)
        return found
