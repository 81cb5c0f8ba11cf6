"""Files that are wrong, each in its own way: one message with file and line, and nothing runs."""
# ruff: noqa: E501, ISC004 - each message stands whole, as it is said

import pytest
from e2e.project import calls, make, run

WITH_ROWS = "dataset: rows.jsonl\nworkflow: app:answer\n"
BROKEN = (
    'Traceback (most recent call last):\n  File "broken.py", line 3, in <module>\n'
    "    answer = 1 / 0\nZeroDivisionError: division by zero\n\n"
)
NEEDY = (
    'Traceback (most recent call last):\n  File "needy.py", line 1, in <module>\n'
    "    import sand_castle\nModuleNotFoundError: No module named 'sand_castle'\n\n"
)
WRONG = {
    "unknown key": (
        "dataset: rows.jsonl\nworkflw: app:answer\n",
        "error: eval.yml:2: unknown key 'workflw'\n"
        "\n"
        "hint: did you mean 'workflow'?  (known here: name, dataset, models, workflow, run, trials, evaluators, matrix, pace, retry, timeout, engine, on_change, env_file, retry_failed, secrets, mask, fail_fast, stop_when, budget, stall, prices, output)\n",
    ),
    "no workflow": (
        "dataset: rows.jsonl\n",
        "error: eval.yml:1: workflow is missing\n\nhint: write workflow: app:answer\n",
    ),
    "no dataset": (
        "workflow: app:answer\n",
        "error: eval.yml:1: dataset is missing\n\nhint: write dataset: questions.jsonl\n",
    ),
    "empty": (
        "",
        "error: eval.yml:1: the file is empty\n"
        "\n"
        "hint: it needs at least: dataset: questions.jsonl and workflow: app:answer\n",
    ),
    "a list": (
        "- dataset: rows.jsonl\n",
        "error: eval.yml:1: must be a mapping of keys to values, not a list\n",
    ),
    "broken yaml": (
        "dataset: rows.jsonl\nworkflow: [app:answer\n",
        "error: eval.yml:3: not valid YAML: expected ',' or ']', but got '<stream end>'\n"
        "\n"
        "hint: a bracket is not closed, or a comma is missing\n",
    ),
    "tab": (
        "dataset: rows.jsonl\nevaluators:\n\tcorrect: exact_match\n",
        "error: eval.yml:3: not valid YAML: found character '\\t' that cannot start any token\n"
        "\n"
        "hint: this is a tab: indent YAML with spaces\n",
    ),
    "duplicate": (
        WITH_ROWS + "dataset: other.jsonl\n",
        "error: eval.yml:3: the key 'dataset' appears twice\n\nhint: the first is on line 1\n",
    ),
    "wrong type": (
        WITH_ROWS + "trials: three\n",
        "error: eval.yml:3: trials: must be an integer, not 'three'\n",
    ),
    "zero trials": (
        WITH_ROWS + "trials: 0\n",
        "error: eval.yml:3: trials: must be at least 1, not 0\n",
    ),
    "missing rows": (
        "dataset: row.jsonl\nworkflow: app:answer\n",
        "error: eval.yml:1: dataset: row.jsonl does not exist\n\nhint: did you mean rows.jsonl?\n",
    ),
    "unknown kind of file": (
        "dataset: app.py\nworkflow: app:answer\n",
        "error: eval.yml:1: dataset: app.py has an unsupported file type; supported: .json, .jsonl, .ndjson, .csv, .tsv, .parquet, .xlsx\n"
        "\n"
        "hint: rename the file if it is one of these, or load the rows with a function: python:\n",
    ),
    "no module": (
        "dataset: rows.jsonl\nworkflow: ap:answer\n",
        "error: eval.yml:2: workflow: no module named 'ap'\n\nhint: did you mean 'app'?\n",
    ),
    "no function": (
        "dataset: rows.jsonl\nworkflow: app:anwser\n",
        "error: eval.yml:2: workflow: app has no 'anwser'\n\nhint: did you mean 'answer'?\n",
    ),
    "not callable": (
        "dataset: rows.jsonl\nworkflow: app:NOTES\n",
        "error: eval.yml:2: workflow: app:NOTES is of type PosixPath, which is not callable\n",
    ),
    "no colon": (
        "dataset: rows.jsonl\nworkflow: app.answer\n",
        "error: eval.yml:2: workflow: must be module:name, like app:answer, not 'app.answer'\n"
        "\n"
        "hint: did you mean app:answer?\n",
    ),
    "unknown evaluator": (
        WITH_ROWS + "evaluators:\n  correct: exact_mach\n",
        "error: eval.yml:4: evaluators.correct: unknown built-in evaluator 'exact_mach'\n"
        "\n"
        "hint: did you mean 'exact_match'?  (built in: contains, exact_match, json_match, numeric, one_of, regex, similarity, trajectory; your own: module:name)\n",
    ),
    "unknown argument": (
        WITH_ROWS + "evaluators:\n  close: {type: numeric, tolerence: 1}\n",
        "error: eval.yml:4: evaluators.close: unknown key 'tolerence'\n"
        "\n"
        "hint: did you mean 'tolerance'?  (known here: type, tolerance, relative, extract, range, group, higher_is_better)\n",
    ),
    "wrong argument": (
        WITH_ROWS + "evaluators:\n  close: {type: numeric, tolerance: -1}\n",
        "error: eval.yml:4: evaluators.close.tolerance: must be a finite number, 0 or more, not -1\n",
    ),
    "bad name": (
        WITH_ROWS + "evaluators:\n  workflow: exact_match\n",
        "error: eval.yml:4: evaluators: the name 'workflow': workflow, run, summary, events, failures, map, id, trial, input, expected, output, status, seconds, attempts, error are reserved\n",
    ),
    "unset": (
        "dataset: ${ROWS}\nworkflow: app:answer\n",
        "error: eval.yml:1: dataset: ${ROWS} is not set in the environment\n"
        "\n"
        "hint: set ROWS, here or in a file for --env-file, or give a default: ${ROWS:-…}\n",
    ),
    "unclosed": (
        "dataset: ${ROWS\nworkflow: app:answer\n",
        "error: eval.yml:1: dataset: '${ROWS' has no '}'\n"
        "\n"
        "hint: close it; a literal '${' is written '$${'\n",
    ),
    "tag": (
        "dataset: !!python/object/apply:os.system [ls]\nworkflow: app:answer\n",
        "error: eval.yml:1: the tag '!!python/object/apply:os.system' is not allowed\n"
        "\n"
        "hint: an eval.yml holds strings, numbers, lists and mappings; for a literal ! use quotes\n",
    ),
    "timeout": (
        WITH_ROWS + "timeout: soon\n",
        "error: eval.yml:3: timeout: must be a number of seconds above 0, or a time like 90s, 2m or 1h, not 'soon'\n",
    ),
    "several": (
        "dataset: row.jsonl\nworkflow: app:answer\ntrials: 0\npace: fast\n",
        "error: eval.yml:1: dataset: row.jsonl does not exist\n"
        "  hint: did you mean rows.jsonl?\n"
        "eval.yml:3: trials: must be at least 1, not 0\n"
        "eval.yml:4: pace: must be auto or an integer, 1 or more, not 'fast'\n"
        "  hint: for a rate: calls a second times their length, so 30 for 20 a second of 1.5 s each\n",
    ),
    "nat": (
        "eval:\n  general: {}\n",
        "error: eval.yml:2: eval.general: dataset is missing\n"
        "\n"
        "hint: write eval.general.dataset, or give --dataset FILE\n",
    ),
    "import fails": (
        "dataset: rows.jsonl\nworkflow: broken:answer\n",
        BROKEN
        + "error: eval.yml:2: workflow: broken cannot be imported: broken.py:3: ZeroDivisionError: division by zero\n",
    ),
    "missing import": (
        "dataset: rows.jsonl\nworkflow: needy:answer\n",
        NEEDY
        + "error: eval.yml:2: workflow: needy cannot be imported: needy.py:1: ModuleNotFoundError: No module named 'sand_castle'\n"
        "\n"
        "hint: needy.py imports sand_castle, which is not installed here\n",
    ),
}


@pytest.mark.quick(4)
@pytest.mark.parametrize(("text", "said"), WRONG.values(), ids=WRONG)
def test_a_wrong_file_is_one_message_with_2_and_nothing_runs(tmp_path, text, said):
    make(tmp_path, rows=3)
    (tmp_path / "broken.py").write_text("import json\n\nanswer = 1 / 0\n", encoding="utf-8")
    needy = "import sand_castle\n\ndef answer(q):\n    return q\n"
    (tmp_path / "needy.py").write_text(needy, encoding="utf-8")
    (tmp_path / "eval.yml").write_text(text, encoding="utf-8")
    done = run(tmp_path, "eval.yml")
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    assert calls(tmp_path) == []
    assert not (tmp_path / "runs").exists()
