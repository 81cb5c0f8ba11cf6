"""What does an error of PyYAML mean, in the words of somebody who writes an eval.yml?"""

import re
from collections.abc import Callable
from typing import NoReturn

import yaml

from limpet.config.errors import Location, refuse
from limpet.text import one_line

# What PyYAML says, and what it usually means.
_USUALLY = (
    ("'\\t'", "this is a tab: indent YAML with spaces"),
    (
        "mapping values are not allowed",
        "a string with ': ' needs quotes; or the line before has no ':'; or the indent is wrong",
    ),
    ("could not find expected ':'", "a key needs a ':' and a space after it"),
    ("expected ',' or", "a bracket is not closed, or a comma is missing"),
    ("end of stream", "a quote or a bracket that was opened is not closed"),
    (
        "expected <block end>",
        "the indentation is wrong: keys of one level start in the same column",
    ),
    ("expected the node content", "a bracket or a quote is not closed"),
    ("cannot start any token", "a string that starts with this character needs quotes"),
    ("undefined alias", "an alias *name needs an anchor &name before it"),
    ("alphabetic or numeric", "a string that starts with * or & needs quotes"),
    ("another document", "--- starts a second document here: move it to its own file"),
    ("unknown escape", "in double quotes, write a backslash as \\\\; or use single quotes"),
)

PLACEHOLDER_HINT = 'a string with {{…}} needs quotes: "{{column}}"'
_UNQUOTED = re.compile(r"[:,\[] *\{\{|: +[^\"'#]*\{\{")


def refuse_syntax(
    error: Exception, at: Callable[[int], Location], text: str, line: int
) -> NoReturn:
    """Raise a `ConfigError` for an error of PyYAML on a line."""
    if isinstance(error, RecursionError):
        refuse(at(line), "is nested too deep")
    if isinstance(error, yaml.reader.ReaderError):
        number = text.count("\n", 0, error.position) + 1
        character = f"U+{error.character:04X}"
        refuse(at(number), f"not valid YAML: the character {character} is not allowed")
    if not isinstance(error, yaml.MarkedYAMLError):
        refuse(at(line), "not valid YAML", "check \\U and \\x escapes in double quotes")
    mark = error.problem_mark or error.context_mark
    problem = one_line(error.problem or error.context or "").removeprefix("but ")
    hint = next((meaning for sign, meaning in _USUALLY if sign in problem), None)
    number = mark.line + 1 if mark else line
    if any(map(_UNQUOTED.search, text.split("\n")[number - 1 : number])):
        hint = PLACEHOLDER_HINT
    refuse(at(number), f"not valid YAML: {problem}", hint)
