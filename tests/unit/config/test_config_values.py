"""Every invalid value of an `eval.yml` is refused in plain words."""

import pytest
from unit.config.refusals import GOOD, a_folder, refusal  # noqa: F401 - a fixture

SUFFIXES = ".json, .jsonl, .ndjson, .csv, .tsv, .parquet, .xlsx"
TIME = "or a time like 90s, 2m or 1h"


# What the file holds, what is said, and the hint.
FILTER = "workflow: app:answer\ndataset:\n  path: questions.jsonl\n  filter: "
REFUSED = {
    "a secret too short to be masked": (
        GOOD + "secrets: [long-enough, hunter2]\n",
        "eval.yml:3: secrets.1: must have at least 8 characters to be masked",
        None,
    ),
    "a variable's name for a secret": (
        GOOD + "secrets: [MY_API_KEY]\n",
        (
            "eval.yml:3: secrets.0: is the name of a variable, not its value "
            "(in a file: ${MY_API_KEY})"
        ),
        None,
    ),
    "a variable with its value": (
        (
            "dataset: questions.jsonl\nworkflow:\n  python: app:answer\n"
            "  depends_on: {env: [HOME, 'A=B']}\n"
        ),
        (
            "eval.yml:4: workflow.depends_on.env.1: must be the name of a variable, like MODEL, "
            "without $ or =, not 'A=B'"
        ),
        None,
    ),
    "a variable's value for its name": (
        (
            "dataset: questions.jsonl\nworkflow:\n  python: app:answer\n"
            "  depends_on: {env: ['${HOME}']}\n"
        ),
        (
            "eval.yml:4: workflow.depends_on.env.0: must be the name of a variable, like MODEL, "
            "without $ or =, not the value of ${HOME}"
        ),
        None,
    ),
    "an address for a function": (
        "dataset: questions.jsonl\nworkflow: http://localhost:8000\n",
        "eval.yml:2: workflow: must be module:name, like app:answer, not 'http://localhost:8000'",
        "for a server, write workflow: {http: …}, or {nat: …} for nat serve",
    ),
    "a filter that no value passes": (
        FILTER + "{lang: []}\n",
        "eval.yml:4: dataset.filter.lang: must not be an empty list: no value would match",
        None,
    ),
    "a sheet of a function": (
        "workflow: app:answer\ndataset: {python: 'app:rows', sheet: one}\n",
        "eval.yml:2: dataset.sheet: only an .xlsx file has sheets",
        None,
    ),
    "a limit of a fixed number": (
        GOOD + "pace: {concurrency: 5, max_concurrency: 2}\n",
        "eval.yml:3: pace.max_concurrency: must be at least concurrency, 5, not 2",
        "it is the limit of concurrency: auto",
    ),
    "a longest wait below the first": (
        GOOD + "retry: {backoff: {base: 10s, cap: 1}}\n",
        "eval.yml:3: retry.backoff.cap: must be at least base, 10, not 1",
        "cap is the longest wait",
    ),
    # Values
    "a word for a number": (
        GOOD + "trials: three\n",
        "eval.yml:3: trials: must be an integer, not 'three'",
        None,
    ),
    "no trial": (
        GOOD + "trials: 0\n",
        "eval.yml:3: trials: must be at least 1, not 0",
        None,
    ),
    "a part of a trial": (
        GOOD + "trials: 2.5\n",
        "eval.yml:3: trials: must be an integer, not 2.5",
        None,
    ),
    "a truth for a number": (
        GOOD + "trials: true\n",
        "eval.yml:3: trials: must be an integer, not true",
        None,
    ),
    "a huge number": (
        GOOD + "trials: 10000000000\n",
        "eval.yml:3: trials: must be at most 1,000,000,000, not 10000000000",
        None,
    ),
    "a number of 5,000 digits": (
        GOOD + "trials: 1" + "0" * 5000 + "\n",
        "eval.yml:3: trials: must be an integer, not a number too large to hold",
        None,
    ),
    "not a number": (
        GOOD + "timeout: .nan\n",
        f"eval.yml:3: timeout: must be a number of seconds above 0, {TIME}, not NaN",
        None,
    ),
    "a negative time": (
        GOOD + "timeout: -1\n",
        f"eval.yml:3: timeout: must be a number of seconds above 0, {TIME}, not -1",
        None,
    ),
    "a time in days": (
        GOOD + "timeout: 2d\n",
        f"eval.yml:3: timeout: must be a number of seconds above 0, {TIME}, not '2d'",
        None,
    ),
    "a number for a name": (
        GOOD + "name: 1.10\n",
        "eval.yml:3: name: must be a string, not 1.1",
        "YAML reads 1.10 as a number: for the string, put it in quotes, '1.10'",
    ),
    "a truth for a name": (
        GOOD + "name: True\n",
        "eval.yml:3: name: must be a string, not true",
        "YAML reads True as a boolean: for the string, put it in quotes, 'True'",
    ),
    "a number for a version": (
        "dataset: questions.jsonl\nworkflow:\n  python: app:answer\n  version: 3\n",
        "eval.yml:4: workflow.version: must be a string, not 3",
        "YAML reads 3 as a number: for the string, put it in quotes, '3'",
    ),
    "a name that leads elsewhere": (
        GOOD + "name: ../x\n",
        (
            "eval.yml:3: name: must be usable as the name of a directory: "
            "no '/', '\\' or line breaks, not '../x'"
        ),
        None,
    ),
    "a list for a dataset": (
        "dataset: [a, b]\nworkflow: app:answer\n",
        "eval.yml:1: dataset: must be a string, not a list",
        None,
    ),
    "a number for a workflow": (
        "dataset: questions.jsonl\nworkflow: 3\n",
        "eval.yml:2: workflow: must be module:name, like app:answer, not 3",
        None,
    ),
    "a workflow without a module": (
        "dataset: questions.jsonl\nworkflow: app.answer\n",
        "eval.yml:2: workflow: must be module:name, like app:answer, not 'app.answer'",
        "did you mean app:answer?",
    ),
    "a program for a workflow": (
        "dataset: questions.jsonl\nworkflow: python agent.py\n",
        "eval.yml:2: workflow: must be module:name, like app:answer, not 'python agent.py'",
        "for a program, write workflow: {command: …}",
    ),
    "a file for a workflow": (
        "dataset: questions.jsonl\nworkflow: src/app.py:answer\n",
        "eval.yml:2: workflow: must be module:name, like app:answer, not 'src/app.py:answer'",
        "did you mean src.app:answer?",
    ),
    "a number in quotes": (
        GOOD + "pace: '8'\n",
        "eval.yml:3: pace: must be auto or an integer, 1 or more, not '8'",
        "leave the quotes out: 8",
    ),
    "a word for a pace": (
        GOOD + "pace: fast\n",
        "eval.yml:3: pace: must be auto or an integer, 1 or more, not 'fast'",
        "for a rate: calls a second times their length, so 30 for 20 a second of 1.5 s each",
    ),
    "a rate for a pace": (
        GOOD + "pace: 32/s\n",
        "eval.yml:3: pace: must be auto or an integer, 1 or more, not '32/s'",
        "for a rate: calls a second times their length, so 30 for 20 a second of 1.5 s each",
    ),
    "a rate as a key": (
        GOOD + "pace: {rate: 20}\n",
        "eval.yml:3: pace: unknown key 'rate'",
        (
            "for a rate: calls a second times their length, so 30 for 20 a second of 1.5 s each  "
            "(known here: concurrency, max_concurrency, remember, share)"
        ),
    ),
    "a pace of zero": (
        GOOD + "pace:\n  concurrency: 0\n",
        "eval.yml:4: pace.concurrency: must be auto or an integer, 1 or more, not 0",
        "for a rate: calls a second times their length, so 30 for 20 a second of 1.5 s each",
    ),
    "a list for a pace": (
        GOOD + "pace:\n- 3\n",
        "eval.yml:3: pace: must be auto or an integer, 1 or more, not a list",
        "for a rate: calls a second times their length, so 30 for 20 a second of 1.5 s each",
    ),
    "a negative retry": (
        GOOD + "retry: -1\n",
        "eval.yml:3: retry: must be at least 0, not -1",
        None,
    ),
    "a number for a backoff": (
        GOOD + "retry: {backoff: 3}\n",
        "eval.yml:3: retry.backoff: must be a mapping of keys to values, not 3",
        None,
    ),
    "a negative wait": (
        GOOD + "retry: {backoff: {cap: -3}}\n",
        f"eval.yml:3: retry.backoff.cap: must be a number of seconds, 0 or more, {TIME}, not -3",
        None,
    ),
    "a yes for a truth": (
        GOOD + "output: {nat: {bare: yes}}\n",
        "eval.yml:3: output.nat.bare: must be true or false, not 'yes'",
        "did you mean true?",
    ),
    "an unknown word": (
        GOOD + "run: {durability: flsh}\n",
        "eval.yml:3: run.durability: must be sync or flush, not 'flsh'",
        "did you mean 'flush'?",
    ),
    "a text for a list": (
        GOOD + "output: {nat: {trace_filter: LLM_END}}\n",
        "eval.yml:3: output.nat.trace_filter: must be a list, not 'LLM_END'",
        "for example [LLM_END]",
    ),
    "a seed of words": (
        "workflow: app:answer\ndataset: {path: questions.jsonl, seed: x}\n",
        "eval.yml:2: dataset.seed: must be an integer, not 'x'",
        None,
    ),
    # Files
    "a dataset that is not there": (
        "workflow: app:answer\ndataset: questions.jsn\n",
        "eval.yml:2: dataset: questions.jsn does not exist",
        "did you mean questions.jsonl?",
    ),
    "a dataset that is not there, in a folder": (
        "workflow: app:answer\ndataset:\n  path: data/lang.csv\n",
        "eval.yml:3: dataset.path: data/lang.csv does not exist",
        "did you mean data/long.csv?",
    ),
    "a folder that is not there": (
        "workflow: app:answer\ndataset: nowhere/at/all.csv\n",
        "eval.yml:2: dataset: nowhere/at/all.csv does not exist",
        "paths are relative to this file; that folder does not exist either",
    ),
    "a function where a path stands": (
        "workflow: app:answer\ndataset: rows:all_of_them\n",
        "eval.yml:2: dataset: rows:all_of_them does not exist",
        "for a function that returns the rows: dataset: {python: 'rows:all_of_them'}",
    ),
    "a folder for a dataset": (
        "workflow: app:answer\ndataset: data\n",
        "eval.yml:2: dataset: data is a directory",
        "name one of the files in it",
    ),
    "a dataset of another kind": (
        "workflow: app:answer\ndataset: notes.txt\n",
        f"eval.yml:2: dataset: notes.txt has an unsupported file type; supported: {SUFFIXES}",
        "rename the file if it is one of these, or load the rows with a function: python:",
    ),
    "a sheet of a file that has none": (
        "workflow: app:answer\ndataset:\n  path: questions.jsonl\n  sheet: one\n",
        "eval.yml:4: dataset.sheet: only an .xlsx file has sheets",
        None,
    ),
    "a file for the output": (
        GOOD + "run: notes.txt\n",
        "eval.yml:3: run: notes.txt is a file, not a directory",
        None,
    ),
    "secrets off by a zero": (
        GOOD + "secrets: 0\n",
        "eval.yml:3: secrets: must be a list of strings",
        None,
    ),
    "secrets off, as before": (
        GOOD + "secrets: false\n",
        "eval.yml:3: secrets: must be a list of strings; to mask nothing: mask: false",
        None,
    ),
    "secrets as one text": (
        GOOD + "secrets: hunter22\n",
        "eval.yml:3: secrets: must be a list of strings",
        None,
    ),
    "another answer to a change": (
        GOOD + "on_change: rdo\n",
        "eval.yml:3: on_change: must be redo or keep, not 'rdo'",
        "did you mean 'redo'?",
    ),
    # The filter
    "a filter that is a text": (
        FILTER + "lang\n",
        "eval.yml:4: dataset.filter: must be a mapping of keys to values, not 'lang'",
        None,
    ),
    "a filter too deep": (
        FILTER + "{lang: {is: en}}\n",
        "eval.yml:4: dataset.filter.lang: must be a value or a list of values, not a mapping",
        "in full: filter: {allow: {column: [values]}, deny: {…}}",
    ),
    "a column beside allow": (
        FILTER + "\n    allow: {lang: en}\n    level: 1\n",
        "eval.yml:6: dataset.filter.level: cannot be used with allow or deny",
        "put 'level' under allow or deny",
    ),
    "a side that is a list": (
        FILTER + "{deny: [en]}\n",
        "eval.yml:4: dataset.filter.deny: must be a mapping of columns to values, not a list",
        None,
    ),
    "a number that YAML changes": (
        FILTER + "{version: [1.2, 1.10]}\n",
        "eval.yml:4: dataset.filter.version.1: YAML reads 1.10 as 1.1",
        "put it in quotes, '1.10', or write it as the dataset has it",
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.replace(" ", "-"))
def test_what_is_wrong_is_said_with_its_line(case):
    text, said, hint = REFUSED[case]
    assert refusal(text) == (said, hint)
