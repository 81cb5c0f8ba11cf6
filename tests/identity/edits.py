"""Edits of small projects: which must run again, and which must not.

Each case is a project before and after an edit, as files by their names. `RERUN` are edits after
which an answer may be another; `KEEP` are those after which it cannot be.
"""

from dataclasses import dataclass, field
from textwrap import dedent


@dataclass(frozen=True)
class Edit:
    """One edit.

    Attributes:
        name: What is edited.
        before: The project's files; text under a plain name is dedented.
        after: The files that differ.
        entry: What is evaluated: `module:name`; `module:build` is a factory that is called.
        arguments: What the process gets on its command line, before and after.
        environment: Variables of the environment, before and after.
        inputs: What it is called with, after the look.
    """

    name: str
    before: dict[str, str]
    after: dict[str, str] = field(default_factory=dict)
    entry: str = "app:answer"
    arguments: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    environment: tuple[dict[str, str], dict[str, str]] = field(default_factory=lambda: ({}, {}))
    inputs: tuple[int, ...] = ()


def app(name: str, before: str, after: str, **others: str) -> Edit:
    """Return an edit of `app.py` alone, beside other files that stay as they are."""
    files = {f"{module}.py": dedent(text) for module, text in others.items()}
    return Edit(name, {"app.py": dedent(before), **files}, {"app.py": dedent(after)})


def swap(name: str, text: str, old: str, new: str, *, file: str = "app.py", **others: str) -> Edit:
    """Return an edit that puts one text in the place of another, in one file."""
    files = {"app.py": text} | {f"{module}.py": text for module, text in others.items()}
    assert old in files[file], name
    edited = dedent(files[file].replace(old, new))
    return Edit(name, {one: dedent(text) for one, text in files.items()}, {file: edited})
