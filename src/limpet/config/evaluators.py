"""Which evaluators does the file name, and are their arguments valid?

Built-in evaluators are created here, so that a wrong argument is reported with its line.
`preparing` imports the ones in Python.
"""

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from limpet.config.checking import checked, report_argument, unknown_key
from limpet.config.environment import shown, typed
from limpet.config.errors import Findings
from limpet.config.judges import JUDGES, check_judge
from limpet.config.model import PythonEvaluator
from limpet.config.models import Models
from limpet.config.scales import SCALE_KEYS, check_scale, without_scale
from limpet.config.short_forms import long_evaluator
from limpet.config.yaml_file import KeyPath
from limpet.errors import LimpetError
from limpet.evaluators.by_name import BUILT_INS
from limpet.evaluators.protocol import flaw_of_name
from limpet.text import hint_near, nearest, one_line, quoted, text_of


def check_evaluators(
    section: Any, models: Models, folder: Path, findings: Findings
) -> dict[str, Any]:
    """Return each evaluator by name: created, a `PythonEvaluator` to import, or a `JudgeSection`.

    Args:
        section: The evaluators, as in the file.
        models: The models of the file.
        folder: The folder of the file.
        findings: Collects the problems.
    """
    checked_evaluators: dict[str, Any] = {}
    folded: dict[str, str] = {}
    for name, value in section.items() if isinstance(section, dict) else ():
        path = ("evaluators", name)
        check_name(name, path, folded, findings)
        given = long_evaluator(value)
        if isinstance(given, dict):
            if "python" not in given:
                check_scale(given, path, findings)
                given = without_scale(given)
            kinds = [kind for kind in JUDGES if kind in given]
            checked_evaluators[name] = (
                _judge(kinds, given, path, models, folder, findings)
                if kinds
                else _evaluator(given, path, findings)
            )
        else:
            must = "must be a built-in, module:name, or a mapping with type, python or judge"
            findings.add(path, f"{must}, not {shown(value)}", f"built in: {', '.join(BUILT_INS)}")
    return checked_evaluators


def arguments_of(built_in: str) -> list[str]:
    """Return the arguments of a built-in evaluator in a file."""
    return [name for name in inspect.signature(BUILT_INS[built_in]).parameters if name != "name"]


def check_name(name: str, path: KeyPath, folded: dict[str, str], findings: Findings) -> None:
    """Report a name that an evaluator cannot have.

    Args:
        name: The name.
        path: Its path in the file.
        folded: The earlier names by their lowercase form; this one is added.
        findings: Collects the problems.
    """
    if flaw := flaw_of_name(name):
        findings.add_key(path, f"evaluators: the name {shown(name)}: {flaw}")
    other = folded.setdefault(name.lower(), name)
    if other != name:
        text = f"evaluators: {shown(other)} and {shown(name)} would use the same file"
        findings.add_key(path, text, "rename one of them")


def _judge(
    kinds: list[str],
    given: dict[str, Any],
    path: KeyPath,
    models: Models,
    folder: Path,
    findings: Findings,
) -> Any:
    others = [*kinds[1:], *(key for key in ("type", "python") if key in given)]
    if others:
        both = f"{kinds[0]} and {others[0]}"
        text = f"cannot be used with {kinds[0]}: keep one of {both}"
        return findings.add((*path, others[0]), text)
    return check_judge(kinds[0], given, path, models, folder, findings)


def _evaluator(given: dict[str, Any], path: KeyPath, findings: Findings) -> Any:
    if "type" in given and "python" in given:
        return findings.add(
            (*path, "python"), "cannot be used with type: keep one of type and python"
        )
    if "python" in given:
        return checked(PythonEvaluator, given, path, findings)
    if "type" in given:
        return _built_in_of(given, path, findings)
    hint = f"type is one of {', '.join(BUILT_INS)}; python is module:name; judge names a model"
    kinds = ("type", "python", *JUDGES)
    if near := next(filter(None, (nearest(key, kinds) for key in given)), None):
        hint = f"did you mean {quoted(near)}?  ({hint})"
    if len(given) == 1 and (kind := next(iter(given))) in BUILT_INS:
        hint = f"write {path[-1]}: {{type: {kind}, …}}"
    return findings.add(path, "needs type, python or judge", hint)


def _built_in_of(given: dict[str, Any], path: KeyPath, findings: Findings) -> Any:
    kind = given["type"]
    if not isinstance(kind, str) or kind not in BUILT_INS:
        near = hint_near(kind, BUILT_INS) if isinstance(kind, str) else None
        listed = f"(built in: {', '.join(BUILT_INS)}; your own: module:name)"
        hint = f"{near}  {listed}" if near else listed.strip("()")
        return findings.add((*path, "type"), f"unknown built-in evaluator {shown(kind)}", hint)
    return built_in(kind, given, path, findings)


def built_in(
    kind: str,
    given: Mapping[str, Any],
    path: KeyPath,
    findings: Findings,
    key_of_kind: str = "type",
) -> Any:
    """Return a built-in evaluator; None if its arguments are wrong.

    Args:
        kind: Its name.
        given: Its arguments, including the key of the kind.
        path: Its path in the file.
        findings: Collects the problems.
        key_of_kind: The key that holds the kind.
    """
    arguments = {key: value for key, value in given.items() if key != key_of_kind}
    known = arguments_of(kind)
    wrong = [key for key in arguments if key not in known]
    for key in wrong:
        here = [key_of_kind, *known, *(SCALE_KEYS if key_of_kind == "type" else ())]
        findings.add_key((*path, key), *unknown_key((*path, key), here))
    return None if wrong else _created(kind, arguments, path, findings)


def _created(kind: str, arguments: dict[str, Any], path: KeyPath, findings: Findings) -> Any:
    try:
        return BUILT_INS[kind](**typed(arguments))
    except LimpetError as error:  # an extra that is not installed
        return findings.add(path, one_line(text_of(error)), error.hint)
    except Exception as error:  # noqa: BLE001 - its message is for the user
        return report_argument(kind, error, arguments, path, findings)
