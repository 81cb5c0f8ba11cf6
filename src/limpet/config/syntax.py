"""What does YAML's complaint usually mean?"""

from collections.abc import Callable
from typing import NoReturn

import yaml

from limpet.config.problems import Place, refuse
from limpet.text import one_line

_USUALLY = (
    ("'\\t'", "there is a tab here: YAML is indented with spaces only"),
    (
        "mapping values are not allowed",
        "a text with ': ' needs quotes; or the line before has no ':'; or the indentation is off",
    ),
    ("could not find expected ':'", "a key needs a ':' and a space after it"),
    ("expected ',' or", "a bracket is not closed, or a comma is missing"),
    ("end of stream", "a quote or a bracket that was opened is not closed"),
    ("expected <block end>", "the indentation is off: keys of one level stand in one column"),
    ("expected the node content", "a bracket or a quote is not closed"),
    ("cannot start any token", "a text that begins with this character needs quotes"),
    ("undefined alias", "an alias such as *name needs an anchor &name before it"),
    ("alphabetic or numeric", "a text that begins with * or & needs quotes"),
    ("another document", "a second document begins here with ---: put it into a file of its own"),
    ("unknown escape", "between double quotes, a backslash is written \\\\; or use single quotes"),
)


def refuse_syntax(error: Exception, at: Callable[[int], Place], text: str, line: int) -> NoReturn:
    """Raise the `ConfigError` for what PyYAML raised.

    Args:
        error: What it raised.
        at: Gives the place for a line.
        text: The text that was read.
        line: How far the reading had come, from 1.
    """
    if isinstance(error, RecursionError):
        refuse(at(line), "is nested too deep")
    if isinstance(error, yaml.reader.ReaderError):
        number = text.count("\n", 0, error.position) + 1
        character = f"U+{_code(error.character):04X}"
        refuse(at(number), f"not valid YAML: the character {character} may not be here")
    if not isinstance(error, yaml.MarkedYAMLError):
        refuse(at(line), "not valid YAML", "look for an odd \\U or \\x in double quotes")
    mark = error.problem_mark or error.context_mark
    said = one_line(error.problem or error.context or "").removeprefix("but ")
    hint = next((meaning for sign, meaning in _USUALLY if sign in said), None)
    refuse(at(mark.line + 1 if mark else line), f"not valid YAML: {said}", hint)


def _code(character: object) -> int:
    # PyYAML hands over one or the other, as it read a text or bytes.
    return character if isinstance(character, int) else ord(str(character))
