"""Which pages can the code itself write?

`make docs` runs this first. The pages of the reference are committed, so that they can be read in
the repository and with `limpet docs`; a test holds that they say what the code says. Two pages make
sense on the site only, and git ignores them.
"""

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

import limpet
from limpet import errors
from limpet.cli.commands import cli
from limpet.config import json_schema
from limpet.journal.layout import Layout

DOCS = Path(__file__).parent
_PAGE = """\
# {title}

<!-- Written by docs/generate.py from {source}: edit that, then `make docs`. -->

{intro}

{body}
"""


def pages() -> dict[str, str]:
    """Return the text of each generated page, by its path below docs/."""
    return {
        "reference/options.md": _PAGE.format(
            title="Options",
            source="src/limpet/cli/commands.py",
            intro="What `limpet COMMAND --help` prints. [Commands](commands.md) explains what the\n"
            "commands do, and their exit codes.",
            body=_options(),
        ),
        "reference/eval-yml-keys.md": _PAGE.format(
            title="Keys of `eval.yml`",
            source="its JSON schema",
            intro="Every key, by its place. `limpet schema` prints the schema itself.\n"
            "[`eval.yml`](eval-yml.md) explains the keys, with examples;\n"
            "[evaluators](evaluators.md#built-in-evaluators) and [judges](judges.md) explain\n"
            "their arguments. Any value may be [`${NAME}`](eval-yml.md#environment-variables).",
            body=_keys(),
        ),
        "reference/errors.md": _PAGE.format(
            title="Errors",
            source="src/limpet/errors.py",
            intro="Every error that Limpet raises is a `LimpetError`, with a `hint`: what to do.\n"
            "Import them from `limpet.errors`. On the command line, an error is `error: …` and\n"
            "`hint: …` on stderr, and [an exit code](commands.md#exit-codes).",
            body=_errors(),
        ),
        "reference/files.md": _PAGE.format(
            title="Files of a run",
            source="src/limpet/journal/layout.py",
            intro="A run is a directory with these files. A [map](map.md) keeps its results in\n"
            "one file, and the others beside it in `<name>.d/`. You may delete `index/` at any\n"
            "time; keep the rest. [Durability](../explanation/durability.md) has what they\n"
            "promise, [`evaluate`](evaluate.md#files) what is in a line of a column.",
            body=_files(),
        ),
        "decisions/index.md": _PAGE.format(
            title="Decisions",
            source="the titles of these pages",
            intro="Why Limpet is built this way: what was decided, what was rejected, and what\n"
            "would change our mind.",
            body=_decisions(),
        ),
    }


def pages_of_the_site() -> dict[str, str]:
    """Return the text of the pages that are on the site only."""
    changelog = (DOCS.parent / "CHANGELOG.md").read_text(encoding="utf-8")
    return {
        # Its links start from the repository's root, and what is outside docs/ is not on the site.
        "changelog.md": re.sub(
            r"\[([^\]]+)\]\((?!https?:)(docs/)?([^)]+)\)",
            lambda found: f"[{found[1]}]({found[3]})" if found[2] else found[1],
            changelog,
        ),
        "python.md": _PAGE.format(
            title="Python",
            source="the docstrings of what limpet.__all__ lists",
            intro="Everything that `import limpet` has. Its modules, like `limpet.errors` and\n"
            "`limpet.executors`, have further names: see the other pages of the reference.",
            body="\n\n".join(
                # By where it is defined: `limpet.evaluators.judge` is also a module.
                f"## {name}\n\n::: {getattr(limpet, name).__module__}.{name}"
                for name in sorted(limpet.__all__, key=str.lower)
            ),
        ),
    }


def _table(*rows: tuple[str, ...]) -> str:
    first, *others = [f"| {' | '.join(map(_cell, row))} |" for row in rows]
    return "\n".join([first, "|---" * len(rows[0]) + "|", *others])


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\|", " ".join(text.split()))


def _words(text: str) -> str:
    """Return a plain text as Markdown that shows the same."""
    return re.sub(r"([<*|[])", r"\\\1", text)


# ---- The options of every command, from click ---------------------------------------------------


def _options() -> str:
    parts = []
    for name, command in cli.commands.items():
        context = click.Context(command, info_name=f"limpet {name}")
        about = f"{inspect.cleandoc(command.help or '')}\n"
        # The lines after a \b stay as they are.
        about = re.sub(r"\x08\n((?:.+\n)+)", r"```text\n\1```\n", about).strip()
        usage = command.get_usage(context).removeprefix("Usage: ")
        parts += [f"## `limpet {name}`", f"```text\n{usage}\n```", about]
        sections = {"option": [one for one in command.params if isinstance(one, click.Option)]}
        for what, options in vars(command).get("_of_kinds", {}).items():
            sections["option"] = [one for one in sections["option"] if one not in options]
            sections[f"option for {what}"] = options
        for title, options in sections.items():
            records = [option.get_help_record(context) for option in options]
            rows = [(f"`{record[0]}`", _words(record[1])) for record in records if record]
            if rows:
                parts.append(_table((title, ""), *rows))
    return "\n\n".join(parts)


# ---- The keys of eval.yml, from its JSON schema -------------------------------------------------

_Schema = Mapping[str, Any]
_KINDS = {"string": "text", "object": "mapping", "array": "list", "boolean": "true or false"}
_VARIABLE = r"\$\{"


def _keys() -> str:
    schema = json_schema()
    known = schema["$defs"]
    parts = []
    for place, section in _sections("", schema, known):
        parts.append(f"## {place or 'At the top'}")
        if place and section.get("description"):
            parts.append(_words(section["description"]))
        needed = section.get("required", ())
        rows = [
            (
                f"`{key}`, required" if key in needed else f"`{key}`",
                _values(value, known),
                _words(value.get("description", "")),
            )
            for key, value in section["properties"].items()
        ]
        parts.append(_table(("key", "value", ""), *rows))
    return "\n\n".join(parts)


def _sections(place: str, section: _Schema, known: _Schema) -> Iterator[tuple[str, _Schema]]:
    """Yield this section and those below it, each with its place in the file."""
    yield place and f"`{place}`", section
    for key, value in section["properties"].items():
        yield from _below(f"{place}.{key}" if place else key, value, known)


def _below(place: str, value: _Schema, known: _Schema) -> Iterator[tuple[str, _Schema]]:
    if isinstance(each := value.get("additionalProperties"), dict):
        yield from _below(f"{place}.NAME", each, known)
    for kind in _alternatives(value, known):
        if "properties" not in kind:
            continue
        if place == "evaluators.NAME":  # its own key tells a kind from the others
            type_ = kind["properties"].get("type", {}).get("const")
            yield f"`{place}`: `{f'type: {type_}' if type_ else kind['required'][0]}`", kind
        else:
            yield from _sections(place, kind, known)


def _alternatives(value: _Schema, known: _Schema) -> list[_Schema]:
    if "$ref" in value:
        return [known[value["$ref"].rpartition("/")[2]]]
    if "anyOf" in value:
        return [found for one in value["anyOf"] for found in _alternatives(one, known)]
    return [value]


def _values(value: _Schema, known: _Schema) -> str:
    """Return in words what a key may hold."""
    if value.get("pattern") == _VARIABLE:
        return "`${NAME}`"
    found: dict[str, None] = {}  # in order
    for one in _alternatives(value, known):
        if one.get("pattern") == _VARIABLE:
            continue
        fixed = one.get("enum", [one["const"]] if "const" in one else ())
        types = one.get("type", ())
        types = [types] if isinstance(types, str) else types
        words = [f"`{each}`" for each in fixed] or [_KINDS.get(each, each) for each in types]
        found |= dict.fromkeys(word for word in words if word != "null")
    default = f"; default: `{value['default']}`" if value.get("default") else ""
    return (", ".join(found) or "anything") + default


# ---- The errors, from the tree in their module's docstring --------------------------------------


def _errors() -> str:
    tree = re.findall(r"^[│├└─ ]*(\w+Error)\s+(.*): (.*)$", errors.__doc__ or "", re.MULTILINE)
    rows = [(f"[`{name}`](#{name.lower()})", what, to_do) for name, what, to_do in tree]
    parts = [_table(("error", "what happened", "what to do"), *rows)]
    for name, _, to_do in tree:
        error = getattr(errors, name)
        about, _, attributes = (inspect.getdoc(error) or "").partition("\n\nAttributes:\n")
        parts += [
            f"## {name}",
            about.partition("\n\nArgs:")[0],
            f"What to do: {to_do}.",
        ]
        known = re.findall(r"^    (\w+): (.*(?:\n     .*)*)", attributes, re.MULTILINE)
        if known:
            parts.append(
                _table(("attribute", ""), *((f"`{key}`", _words(what)) for key, what in known))
            )
        parent = error.__base__
        if issubclass(parent, errors.LimpetError):
            parts.append(f"It is a [`{parent.__name__}`](#{parent.__name__.lower()}).")
    return "\n\n".join(parts)


# ---- The files of a run, from the layout of the journal -----------------------------------------


def _files() -> str:
    layout = Layout(Path())
    parts = {name: part for name, part in vars(Layout).items() if isinstance(part, property)}
    named = [
        (f"`{getattr(layout, name)}`", inspect.getdoc(part) or "") for name, part in parts.items()
    ]
    return _table(
        ("file", ""),
        ("`workflow_output.jsonl`", "The column of the workflow: a line for each answer."),
        ("`<evaluator>_output.jsonl`", "The column of an evaluator: a line for each score."),
        *named,
        ("`summary.json`", "The numbers, written whole at the end of each session."),
        ("`tags/`", "An empty file for each tag."),
    )


# ---- The decisions ------------------------------------------------------------------------------


def _decisions() -> str:
    found = sorted((DOCS / "decisions").glob("0*.md"))
    titles = [(path, path.read_text(encoding="utf-8").partition("\n")[0]) for path in found]
    return "\n".join(f"- [{title.removeprefix('# ')}]({path.name})" for path, title in titles)


if __name__ == "__main__":
    for name, text in (pages() | pages_of_the_site()).items():
        (DOCS / name).write_text(text, encoding="utf-8")
