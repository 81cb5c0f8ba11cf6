"""Which calls of libraries may have side effects that change later answers?

All of them, except those known not to.
"""

import re
import sys

_US = __name__.partition(".")[0]
_CHANGING = re.compile(
    r"set($|[_A-Z]|[a-z])|seed|register|patch|install|putenv|chdir|import_module"
)
_CONTEXTS = {"getcontext", "localcontext"}
_BUILTINS = {"setattr", "delattr", "exec", "eval", "__import__"}
# Their calls do not affect answers, except by what they return.
_PACKAGES = {"numpy", "pandas", "polars", "pyarrow", "datasets", "yaml", "tqdm", "rich", "jinja2"}
_PACKAGES |= {"typer", "click", "fire", "dotenv", "structlog", "loguru", "pytest", "_pytest"}
_PACKAGES |= {"attr", "attrs", "pydantic", "pydantic_core", "tenacity", "wrapt", "tiktoken"}
_PACKAGES |= {"fastapi", "flask", "starlette", "mlflow", "wandb", "nest_asyncio", "uvloop"}
_PACKAGES |= {"typing_extensions", "colorama", _US}
# They only observe.
_PACKAGES |= {"opentelemetry", "openinference", "phoenix", "langfuse", "langsmith", "weave", "opik"}
_PACKAGES |= {"logfire", "traceloop", "agentops", "sentry_sdk", "ddtrace", "comet_ml", "icecream"}
# Calls of them that do change answers: how numbers, tables and strings are read or written.
_EXCEPTIONS = {"numpy": r"set_|seterr|seed", "polars": r"set_|Config", "yaml": r"add_"}
_EXCEPTIONS |= {"wrapt": r"patch_|wrap_|register", "csv": r"register_|field_size_limit"}
_EXCEPTIONS |= dict.fromkeys(
    ["mlflow", "wandb", "sentry_sdk", "weave", "opentelemetry", _US], r"(?!)"
)
_STANDARD = {"argparse", "logging", "warnings", "time", "shutil", "pathlib", "json", "csv", "gc"}
_STANDARD |= {"asyncio", "atexit", "faulthandler", "tracemalloc", "pprint", "textwrap", "typing"}
_STANDARD |= {"_io", "io", "builtins", "collections", "dataclasses", "enum", "posixpath"}
_STANDARD |= {"_thread", "_asyncio", "_collections", "signal", "multiprocessing"}
_HARMLESS = {"makedirs", "mkdir", "exit", "sleep", "flush", "reconfigure"}


def has_side_effects(package: str, name: str, *, dropped: bool) -> bool:
    """Return whether a call may have side effects.

    Args:
        package: The top-level package of the function.
        name: The name of the function.
        dropped: Whether the return value is discarded.
    """
    if package == "builtins":
        return name in _BUILTINS
    if package in _PACKAGES:
        return re.match(_EXCEPTIONS.get(package, r"set_|seed"), name) is not None
    if package in sys.stdlib_module_names:
        if package in _STANDARD:
            return re.match(_EXCEPTIONS.get(package, r"(?!)"), name) is not None
        if dropped:
            return name not in _HARMLESS
        return package == "unittest" or name in _CONTEXTS or _CHANGING.match(name) is not None
    return True
