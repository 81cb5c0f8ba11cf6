"""Which variables does a class of settings read: one for each of its fields?

`class Settings(BaseSettings)` of pydantic-settings names none of them, and is often made only when
the workflow asks for it.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from limpet.fingerprints.asking import bases_of, held_by, is_a, text_at

if TYPE_CHECKING:
    from limpet.fingerprints.walk import Walk

_MAKER = "pydantic_settings"


def use_settings(walk: "Walk", cls: type) -> None:
    """Let the variables count that a class of settings reads, and what its `.env` says of them."""
    bases = bases_of(cls)
    if not any((text_at(one, "__module__") or "").partition(".")[0] == _MAKER for one in bases):
        return
    config: Mapping[str, Any] = held_by(cls).get("model_config") or {}
    filed = {file: _said_in(file) for file in _files(config.get("env_file"))}
    nested = str(config.get("env_nested_delimiter") or "\0").lower()
    for asked in _asked_for(cls, str(config.get("env_prefix") or "").lower()):
        walk.use_variable(asked.upper())
        for name in [*os.environ]:
            if name.lower() == asked or name.lower().startswith(asked + nested):
                walk.use_variable(name)
        for file, said in filed.items():
            for name, value in said.items():
                hit = name.lower() == asked or name.lower().startswith(asked + nested)
                if hit and not walk.is_secret(name):
                    walk.keep(f"{name} in {Path(file).name}", walk.texts.of(value))


def _asked_for(cls: type, prefix: str) -> Iterator[str]:
    held = held_by(cls)
    fields = held.get("__pydantic_fields__") or held.get("model_fields") or {}
    for name, field in fields.items():
        other = getattr(field, "validation_alias", None) or getattr(field, "alias", None)
        others = [one for one in getattr(other, "choices", [other]) if type(one) is str]
        yield from (one.lower() for one in others or [prefix + name])


def _files(given: Any) -> list[str]:
    every = given if is_a(given, list, tuple) else [given]
    return [os.fspath(one) for one in every if is_a(one, str, Path)]


def _said_in(file: str) -> dict[str, str]:
    try:
        lines = Path(file).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return {}
    parts = [one.removeprefix("export ").partition("=") for one in lines if one[:1] != "#"]
    return {name.strip(): value.strip() for name, sign, value in parts if sign}
