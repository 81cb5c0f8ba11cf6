"""Is the optional library for a format installed?"""

from importlib import import_module
from typing import Any

from limpet.errors import DatasetError


def needed(module: str, place: str) -> Any:
    """Import a module of the extra `data`.

    Raises:
        DatasetError: It cannot be imported.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise DatasetError(
            f"{place}: reading it needs {module}, which cannot be imported ({error})",
            hint="pip install 'limpet[data]'",
        ) from error
