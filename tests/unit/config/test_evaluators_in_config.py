"""Problems of evaluators and environment variables are reported with their lines."""

import pytest
from unit.config.refusals import GOOD, a_folder, refusal  # noqa: F401 - a fixture

BUILT_INS = "contains, exact_match, json_match, numeric, one_of, regex, similarity, trajectory"
RESERVED = (
    "workflow, run, summary, events, failures, map, id, trial, input, expected, output, status, "
    "seconds, attempts, error are reserved"
)


# What the file holds, what is said, and the hint.
REFUSED = {
    "an unknown kind of event": (
        GOOD + "evaluators:\n  calls:\n    type: trajectory\n    kinds: [tool, modell]\n",
        (
            "eval.yml:6: evaluators.calls.kinds: unknown kind 'modell'; the kinds are tool, model, "
            "agent, other"
        ),
        "did you mean 'model'?",
    ),
    "no kind of event": (
        GOOD + "evaluators:\n  calls: {type: trajectory, kinds: []}\n",
        (
            "eval.yml:4: evaluators.calls.kinds: must name at least one kind, or be None for all, "
            "not an empty list"
        ),
        None,
    ),
    "a word for a list": (
        GOOD + "evaluators:\n  calls: {type: trajectory, kinds: tool}\n",
        (
            "eval.yml:4: evaluators.calls.kinds: must be a list of strings, for example ['tool'], "
            "not 'tool'"
        ),
        None,
    ),
    "flags that no pattern has": (
        GOOD + "evaluators:\n  has: {type: regex, pattern: a, flags: 4}\n",
        "eval.yml:4: evaluators.has.flags: 4 cannot use LOCALE flag with a str pattern",
        None,
    ),
    "a number for a column": (
        GOOD + "evaluators:\n  calls:\n    type: trajectory\n    expected_column: 3\n",
        "eval.yml:6: evaluators.calls.expected_column: must be a string, not 3",
        "YAML reads 3 as a number: for the string, put it in quotes, '3'",
    ),
    "a path that is none": (
        GOOD + "evaluators:\n  same:\n    type: json_match\n    ignore: ['id', '$.[']\n",
        (
            "eval.yml:6: evaluators.same.ignore: '$.[' is not a path to a key, like $.meta.id, "
            "$.items[*].id or $['a key']; a key alone, like id, is ignored everywhere"
        ),
        None,
    ),
    "a name too long for its files": (
        GOOD + f"evaluators: {{{'a' * 201}: numeric}}\n",
        (
            f"eval.yml:3: evaluators: the name '{'a' * 80}…': must have at most 200 characters, "
            "not 201: it names files"
        ),
        None,
    ),
    # Evaluators
    "evaluators in a list": (
        GOOD + "evaluators: [numeric]\n",
        (
            "eval.yml:3: evaluators: must map names to evaluators, like correct: exact_match, "
            "not a list"
        ),
        None,
    ),
    "an unknown built-in": (
        GOOD + "evaluators:\n  correct: exactmatch\n",
        "eval.yml:4: evaluators.correct: unknown built-in evaluator 'exactmatch'",
        f"did you mean 'exact_match'?  (built in: {BUILT_INS}; your own: module:name)",
    ),
    "a number for an evaluator": (
        GOOD + "evaluators: {a: 3}\n",
        (
            "eval.yml:3: evaluators.a: must be a built-in, module:name, or a mapping with type, "
            "python or judge, not 3"
        ),
        f"built in: {BUILT_INS}",
    ),
    "an evaluator of no kind": (
        GOOD + "evaluators: {a: {tolerance: 3}}\n",
        "eval.yml:3: evaluators.a: needs type, python or judge",
        f"type is one of {BUILT_INS}; python is module:name; judge names a model",
    ),
    "an evaluator under its type": (
        GOOD + "evaluators: {near: {similarity: {threshold: 0.8}}}\n",
        "eval.yml:3: evaluators.near: needs type, python or judge",
        "write near: {type: similarity, …}",
    ),
    "an evaluator of two kinds": (
        GOOD + "evaluators: {a: {type: numeric, python: 'a:b'}}\n",
        "eval.yml:3: evaluators.a.python: cannot be used with type: keep one of type and python",
        None,
    ),
    "an unknown argument": (
        GOOD + "evaluators:\n  close:\n    type: numeric\n    tolerence: 0.1\n",
        "eval.yml:6: evaluators.close: unknown key 'tolerence'",
        (
            "did you mean 'tolerance'?  (known here: type, tolerance, relative, extract, range, "
            "group, higher_is_better)"
        ),
    ),
    "a wrong argument": (
        GOOD + "evaluators:\n  close:\n    type: numeric\n    tolerance: -1\n",
        "eval.yml:6: evaluators.close.tolerance: must be a finite number, 0 or more, not -1",
        None,
    ),
    "a wrong pattern": (
        GOOD + "evaluators:\n  form: {type: regex, pattern: '('}\n",
        (
            "eval.yml:4: evaluators.form.pattern: '(' is not a valid regular expression: "
            "missing ), unterminated subpattern at position 0"
        ),
        None,
    ),
    "a yes for an argument": (
        GOOD + "evaluators:\n  a: {type: contains, casefold: yes}\n",
        "eval.yml:4: evaluators.a.casefold: must be true or false, not 'yes'",
        None,
    ),
    "an argument that is empty": (
        GOOD + "evaluators:\n  a: {type: one_of, choices: []}\n",
        "eval.yml:4: evaluators.a.choices: must be at least one value, not an empty list",
        None,
    ),
    "a part of an argument": (
        GOOD + "evaluators:\n  same: {type: json_match, ignore: [1]}\n",
        "eval.yml:4: evaluators.same.ignore: must contain only strings, not 1",
        None,
    ),
    "an unknown key of a function": (
        GOOD + "evaluators: {a: {python: 'a:b', verson: '2'}}\n",
        "eval.yml:3: evaluators.a: unknown key 'verson'",
        (
            "did you mean 'version'?  (known here: range, group, higher_is_better, python, "
            "version, endpoint, inputs, depends_on, engine)"
        ),
    ),
    "a range that goes down": (
        GOOD + "evaluators:\n  a:\n    type: numeric\n    range: [5, 1]\n",
        (
            "eval.yml:6: evaluators.a.range: its value must be two finite numbers, the lower "
            "first, like [1, 5]"
        ),
        None,
    ),
    "a range that is no pair": (
        GOOD + "evaluators: {a: {python: 'a:b', range: [0, 1, 2]}}\n",
        (
            "eval.yml:3: evaluators.a.range: its value must be two finite numbers, the lower "
            "first, like [1, 5]"
        ),
        None,
    ),
    "a direction that is no truth": (
        GOOD + "evaluators: {a: {type: numeric, higher_is_better: lower}}\n",
        "eval.yml:3: evaluators.a.higher_is_better: must be true or false, not 'lower'",
        None,
    ),
    "an evaluator's version that is a number": (
        GOOD + "evaluators: {a: {python: 'a:b', version: 2}}\n",
        "eval.yml:3: evaluators.a.version: must be a string, not 2",
        "YAML reads 2 as a number: for the string, put it in quotes, '2'",
    ),
    "an evaluator that is a file": (
        GOOD + "evaluators: {a: 'judges.py:grade'}\n",
        "eval.yml:3: evaluators.a: must be module:name, like app:answer, not 'judges.py:grade'",
        "did you mean judges:grade?",
    ),
    "a reserved name": (
        GOOD + "evaluators:\n  Workflow: numeric\n",
        f"eval.yml:4: evaluators: the name 'Workflow': {RESERVED}",
        None,
    ),
    "a name that makes no file": (
        GOOD + "evaluators:\n  a/b: numeric\n",
        (
            "eval.yml:4: evaluators: the name 'a/b': must be letters, digits, _ and - only, and "
            "not begin with a digit or -"
        ),
        None,
    ),
    "two names of one file": (
        GOOD + "evaluators:\n  a: numeric\n  A: regex\n",
        "eval.yml:5: evaluators: 'a' and 'A' would use the same file",
        "rename one of them",
    ),
    # The environment
    "a variable that is not set": (
        GOOD + "name: ${NOT_SET}\n",
        "eval.yml:3: name: ${NOT_SET} is not set in the environment",
        "set NOT_SET, here or in a file for --env-file, or give a default: ${NOT_SET:-…}",
    ),
    "a variable that a needed value has": (
        "dataset: ${NOT_SET}/q.jsonl\nworkflow: app:answer\n",
        "eval.yml:1: dataset: ${NOT_SET} is not set in the environment",
        "set NOT_SET, here or in a file for --env-file, or give a default: ${NOT_SET:-…}",
    ),
    "a variable inside a long form": (
        "workflow: app:answer\ndataset:\n  path: ${NOT_SET}\n",
        "eval.yml:3: dataset.path: ${NOT_SET} is not set in the environment",
        "set NOT_SET, here or in a file for --env-file, or give a default: ${NOT_SET:-…}",
    ),
    "a variable that is not closed": (
        GOOD + "name: ${NOT_SET\n",
        "eval.yml:3: name: '${NOT_SET' has no '}'",
        "close it; a literal '${' is written '$${'",
    ),
    "a variable of no name": (
        GOOD + "name: ${1X}\n",
        "eval.yml:3: name: '${1X}' does not name a variable",
        "write ${NAME} or ${NAME:-default}, not nested; a literal '${' is '$${'",
    ),
    "a variable in a variable": (
        GOOD + "name: ${A:-${B}}\n",
        "eval.yml:3: name: '${A:-${B}' does not name a variable",
        "write ${NAME} or ${NAME:-default}, not nested; a literal '${' is '$${'",
    ),
    "an escape for a terminal": (
        GOOD + 'name: "\\e[2Jx"\n',
        (
            "eval.yml:3: name: must be usable as the name of a directory: "
            "no '/', '\\' or line breaks, not '\\x1b[2Jx'"
        ),
        None,
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.replace(" ", "-"))
def test_what_is_wrong_is_said_with_its_line(case):
    text, said, hint = REFUSED[case]
    assert refusal(text) == (said, hint)
