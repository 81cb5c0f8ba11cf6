"""Limpet runs evaluations of LLM workflows and never loses a finished result.

Names are imported when first used, so that importing limpet stays fast. `__init__.pyi` lists them,
for type checkers and for this module.
"""

from importlib import import_module

_stub = __loader__.get_data(__file__.removesuffix("c") + "i").decode()  # type: ignore[union-attr]
_lines = (line.split() for line in _stub.splitlines() if line.startswith("from "))
_MODULE_OF = {words[5]: words[1] for words in _lines}
"""Where each name is from: a line of the list is `from module import name as name`."""
__all__ = [name for name, module in _MODULE_OF.items() if module != __name__]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if module == __name__:
        return import_module(f"{module}.{name}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
