"""Which evaluators does the file ask for, and are they well asked for?

The built-in ones are made here, so that a wrong argument is said with its line. Those in Python are
only named: `preparing` imports them.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from limpet import evaluators
from limpet.config.checking import checked, unknown_key
from limpet.config.environment import is_from_environment, settled, shown
from limpet.config.errors import Findings, did_you_mean
from limpet.config.model import PythonScorer
from limpet.config.short_forms import long_evaluator
from limpet.config.yaml_file import KeyPath
from limpet.errors import LimpetError
from limpet.evaluators.naming import checked_name
from limpet.text import one_line, text_of

BUILT_INS: Mapping[str, Callable[..., Any]] = {
    made.__name__: made
    for made in (
        evaluators.contains,
        evaluators.exact_match,
        evaluators.json_match,
        evaluators.numeric,
        evaluators.one_of,
        evaluators.regex,
        evaluators.similarity,
        evaluators.trajectory,
    )
}


def check_evaluators(asked: Any, findings: Findings) -> dict[str, Any]:
    """Return each evaluator by its name: made, or a `PythonScorer`."""
    made: dict[str, Any] = {}
    folded: dict[str, str] = {}
    for name, value in asked.items() if isinstance(asked, dict) else ():
        path = ("evaluators", name)
        check_name(name, path, folded, findings)
        given = long_evaluator(value)
        if isinstance(given, dict):
            made[name] = _scorer(given, path, findings)
        else:
            must = "must be a built-in, module:name, or a mapping with type or python"
            findings.add(path, f"{must}, not {shown(value)}", f"built in: {', '.join(BUILT_INS)}")
    return made


def arguments_of(built_in: str) -> list[str]:
    """Return the arguments that a built-in evaluator takes in a file."""
    return [name for name in inspect.signature(BUILT_INS[built_in]).parameters if name != "name"]


def check_name(name: str, path: KeyPath, folded: dict[str, str], findings: Findings) -> None:
    """Say if an evaluator may not be called so.

    Args:
        name: What it is called.
        path: Where it stands.
        folded: The names before it, by their small letters; this one is added.
        findings: Where to say what is wrong.
    """
    try:
        checked_name(name)
    except ValueError as error:
        said = text_of(error).partition(": ")[2].partition("; give")[0]
        findings.add_key(path, f"evaluators: the name {shown(name)}: {said}")
    other = folded.setdefault(name.lower(), name)
    if other != name:
        text = f"evaluators: {shown(other)} and {shown(name)} would have the same file"
        findings.add_key(path, text, "give one of them another name")


def _scorer(given: dict[str, Any], path: KeyPath, findings: Findings) -> Any:
    if "type" in given and "python" in given:
        return findings.add(
            (*path, "python"), "cannot be used with type: keep one of type and python"
        )
    if "python" in given:
        return checked(PythonScorer, given, path, findings)
    if "type" in given:
        return _built_in_of(given, path, findings)
    hint = f"type is one of {', '.join(BUILT_INS)}; python is module:name"
    return findings.add(path, "needs type or python", hint)


def _built_in_of(given: dict[str, Any], path: KeyPath, findings: Findings) -> Any:
    kind = given["type"]
    if not isinstance(kind, str) or kind not in BUILT_INS:
        near = did_you_mean(kind, BUILT_INS) if isinstance(kind, str) else None
        listed = f"(built in: {', '.join(BUILT_INS)}; your own: module:name)"
        hint = f"{near}  {listed}" if near else listed.strip("()")
        return findings.add((*path, "type"), f"there is no built-in evaluator {shown(kind)}", hint)
    return built_in(kind, given, path, findings)


def built_in(
    kind: str,
    given: Mapping[str, Any],
    path: KeyPath,
    findings: Findings,
    key_of_kind: str = "type",
) -> Any:
    """Return a built-in evaluator; None where something is wrong with its arguments.

    Args:
        kind: Which one.
        given: Its arguments, with the key of the kind among them.
        path: Where it stands.
        findings: Where to say what is wrong.
        key_of_kind: Under which key the kind stands.
    """
    arguments = {key: value for key, value in given.items() if key != key_of_kind}
    known = arguments_of(kind)
    wrong = [key for key in arguments if key not in known]
    for key in wrong:
        findings.add_key((*path, key), *unknown_key((*path, key), [key_of_kind, *known]))
    return None if wrong else _made(kind, arguments, path, findings)


def _made(kind: str, arguments: dict[str, Any], path: KeyPath, findings: Findings) -> Any:
    try:
        return BUILT_INS[kind](**settled(arguments))
    except LimpetError as error:  # an extra that is not installed
        return findings.add(path, one_line(text_of(error)), error.hint)
    except Exception as error:  # noqa: BLE001 - what it says of its arguments is for the user
        said = text_of(error)
    for key, value in arguments.items():
        # Most name the argument first: `tolerance=-1: must be …`. That one has its own line.
        begin = f"{key}={settled(value)!r}: "
        if said.startswith(begin):
            said = said.removeprefix(begin).replace("True or False", "true or false")
            path, said = (*path, key), one_line(said)
            if said.startswith("must"):
                return findings.add(path, f"{said}, not {shown(value)}")
            said = f"{shown(value)} {said}"
            break
    if is_from_environment(arguments):
        said = f"{kind} refuses what the environment had a part in"
    return findings.add(path, one_line(said))
