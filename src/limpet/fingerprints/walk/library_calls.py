"""Which calls of libraries may change an answer that is given later?

Nobody can tell, so all may but those that are known not to.
"""

import re
import sys

_US = __name__.partition(".")[0]
_CHANGING = re.compile(
    r"set($|[_A-Z]|[a-z])|seed|register|patch|install|putenv|chdir|import_module"
)
_CONTEXTS = {"getcontext", "localcontext"}
_BUILTINS = {"setattr", "delattr", "exec", "eval", "__import__"}
# What they are called for is no part of an answer, or comes out of what they give.
_PACKAGES = {"numpy", "pandas", "polars", "pyarrow", "datasets", "yaml", "tqdm", "rich", "jinja2"}
_PACKAGES |= {"typer", "click", "fire", "dotenv", "structlog", "loguru", "pytest", "_pytest"}
_PACKAGES |= {"attr", "attrs", "pydantic", "pydantic_core", "tenacity", "wrapt", "tiktoken"}
_PACKAGES |= {"fastapi", "flask", "starlette", "mlflow", "wandb", "nest_asyncio", "uvloop"}
_PACKAGES |= {"typing_extensions", "colorama", _US}
# They only look on.
_PACKAGES |= {"opentelemetry", "openinference", "phoenix", "langfuse", "langsmith", "weave", "opik"}
_PACKAGES |= {"logfire", "traceloop", "agentops", "sentry_sdk", "ddtrace", "comet_ml", "icecream"}
# What of them changes answers nevertheless: how numbers, tables and texts are written or read.
_LOUD = {"numpy": r"set_|seterr|seed", "polars": r"set_|Config", "yaml": r"add_"}
_LOUD |= {"wrapt": r"patch_|wrap_|register", "csv": r"register_|field_size_limit"}
_LOUD |= dict.fromkeys(["mlflow", "wandb", "sentry_sdk", "weave", "opentelemetry", _US], r"(?!)")
_STANDARD = {"argparse", "logging", "warnings", "time", "shutil", "pathlib", "json", "csv", "gc"}
_STANDARD |= {"asyncio", "atexit", "faulthandler", "tracemalloc", "pprint", "textwrap", "typing"}
_STANDARD |= {"_io", "io", "builtins", "collections", "dataclasses", "enum", "posixpath"}
_STANDARD |= {"_thread", "_asyncio", "_collections", "signal", "multiprocessing"}
_QUIET = {"makedirs", "mkdir", "exit", "sleep", "flush", "reconfigure"}


def is_loud(package: str, name: str, *, dropped: bool) -> bool:
    """Tell whether a call may change what others do.

    Args:
        package: Whose it is: the first part of the module's name.
        name: What is called.
        dropped: Whether nobody gets what it returns.
    """
    if package == "builtins":
        return name in _BUILTINS
    if package in _PACKAGES:
        return re.match(_LOUD.get(package, r"set_|seed"), name) is not None
    if package in sys.stdlib_module_names:
        if package in _STANDARD:
            return re.match(_LOUD.get(package, r"(?!)"), name) is not None
        if dropped:
            return name not in _QUIET
        return package == "unittest" or name in _CONTEXTS or _CHANGING.match(name) is not None
    return True
