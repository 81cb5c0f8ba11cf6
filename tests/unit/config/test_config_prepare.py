"""Only what an `eval.yml` names is imported; a failed import is reported with its line."""

import sys
from pathlib import Path

import pytest

import limpet
from limpet.config import load_config
from limpet.errors import ConfigError

GOOD = "dataset: questions.jsonl\nworkflow: app:answer\n"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a dataset, to stand in; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    before = set(sys.modules)
    (tmp_path / "questions.jsonl").write_text('{"id": "1", "question": "x", "answer": "x"}\n')
    (tmp_path / "app.py").write_text("LIMIT = 3\ndef answer(question): return question\n")
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(tmp_path) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def prepared(text):
    Path("eval.yml").write_text(text)
    return load_config("eval.yml").prepare()


def refusal(text):
    with pytest.raises(ConfigError) as caught:
        prepared(text)
    return str(caught.value), caught.value.hint


def test_what_is_prepared_runs(folder):
    (folder / "judges.py").write_text("def grade(output, expected): return output == expected\n")
    Path("eval.yml").write_text(
        GOOD + "trials: 2\nevaluators:\n  correct: exact_match\n  short: judges:grade\n"
        "  long: {python: 'judges:grade', version: '2', endpoint: judge}\n"
    )
    config = load_config("eval.yml")
    ready = config.prepare()
    result = limpet.evaluate(
        ready.dataset, ready.workflow, ready.evaluators, config.run, config.trials, **ready.options
    )
    done = "2 of 2 completed (1 item × 2 trials)"
    assert str(result) == f"<EvaluationResult: {done}; correct 1, short 1, long 1>"
    assert (folder / "runs" / folder.name / "correct_output.jsonl").exists()


def test_only_what_the_file_names_is_imported(folder):
    for name in ("beside", "judges", "conftest"):
        (folder / f"{name}.py").write_text("raise SystemExit('imported')")
    prepared(GOOD + "evaluators: {correct: exact_match}\n")
    assert "app" in sys.modules
    assert not {"beside", "judges"} & set(sys.modules)


def test_the_folder_of_the_file_stays_first_on_the_path(folder, tmp_path_factory, monkeypatch):
    (folder / "later.py").write_text("VALUE = 7\n")
    (folder / "app.py").write_text("def answer(x):\n    import later\n    return later.VALUE\n")
    (folder / "eval.yml").write_text(GOOD)
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    workflow = load_config(folder / "eval.yml").prepare().workflow
    assert sys.path[0] == str(folder)
    assert workflow._function("x") == 7


def test_a_dataset_may_come_from_a_function(folder):
    (folder / "rows.py").write_text("def all():\n    return [{'id': 1, 'question': 'x'}]\n")
    ready = prepared("dataset: {python: rows:all, limit: 3}\nworkflow: app:answer\n")
    assert ready.dataset.source() == [{"id": 1, "question": "x"}]
    assert (ready.dataset.limit, ready.options) == (3, {})


def test_a_declared_version_takes_the_place_of_the_code():
    one, two = (
        prepared(
            "dataset: questions.jsonl\nworkflow: {python: 'app:answer', version: '%s'}" % version  # noqa: UP031
        ).workflow.fingerprint
        for version in "12"
    )
    assert one != two
    assert list(one) == ["version"]


def test_a_version_of_what_says_itself_what_it_is_is_refused(folder):
    (folder / "app.py").write_text(
        "from limpet.workflows import as_workflow\nflow = as_workflow(lambda x: x)\n"
    )
    assert refusal("dataset: questions.jsonl\nworkflow:\n  python: app:flow\n  version: '3'\n") == (
        "eval.yml:4: workflow.version: app:flow is a Workflow, which has its own version",
        "leave version out",
    )


MODULES = {
    # What app.py holds, what the workflow is, what is said, and the hint.
    "no module": (
        "",
        "ap:answer",
        "no module named 'ap'",
        "did you mean 'app'?",
    ),
    "no module like it": (
        "",
        "nothing_here:answer",
        "no module named 'nothing_here'",
        "searched next to this file and in the installed packages",
    ),
    "no module in a package": (
        "",
        "json.nothing_here:answer",
        "no module named 'json.nothing_here'",
        "searched next to this file and in the installed packages",
    ),
    "a module it imports is missing": (
        "x = 1\nimport nothing_here\n",
        "app:answer",
        "app cannot be imported: app.py:2: ModuleNotFoundError: No module named 'nothing_here'",
        "app.py imports nothing_here, which is not installed here",
    ),
    "it fails": (
        "def f():\n    return 1 / 0\n\nf()\n",
        "app:answer",
        "app cannot be imported: app.py:2: ZeroDivisionError: division by zero",
        None,
    ),
    "it fails in a library": (
        "import json\njson.loads('{')\n",
        "app:answer",
        (
            "app cannot be imported: app.py:2: JSONDecodeError: Expecting property name enclosed "
            "in double quotes: line 1 column 2 (char 1)"
        ),
        None,
    ),
    "it is not Python": (
        "x = 1\ndef answer(:\n",
        "app:answer",
        "app cannot be imported: app.py:2: SyntaxError: invalid syntax (app.py, line 2)",
        None,
    ),
    "it ends the program": (
        "raise SystemExit(3)\n",
        "app:answer",
        "app cannot be imported: app.py:1: SystemExit: 3",
        "put the code that exits under: if __name__ == '__main__':",
    ),
    "no such name": (
        "def answer(x): return x\n",
        "app:anwser",
        "app has no 'anwser'",
        "did you mean 'answer'?",
    ),
    "no such method": (
        "class Bot:\n    def ask(self, x): return x\n",
        "app:Bot.ask_me",
        "app has no 'ask_me'",
        "did you mean 'ask'?",
    ),
    "it cannot be called": (
        "LIMIT = 3\n",
        "app:LIMIT",
        "app:LIMIT is of type int, which is not callable",
        None,
    ),
    "it takes nothing": (
        "class Bot:\n    def __call__(self): return 1\n",
        "app:Bot",
        "app:Bot: functools.partial(…",
        "let it take the input, columns of the dataset, or `item`",
    ),
    "names that raise": (
        "def __getattr__(name): raise OSError('no disk')\n",
        "app:answer",
        "app: getting 'answer' failed: no disk",
        None,
    ),
}


@pytest.mark.parametrize("case", MODULES, ids=lambda case: case.replace(" ", "-"))
def test_a_workflow_that_cannot_be_had_is_said_with_its_line(case, folder):
    code, workflow, said, hint = MODULES[case]
    (folder / "app.py").write_text(code)
    told = refusal(f"dataset: questions.jsonl\nworkflow:\n  {workflow}\n")
    begin, more, _ = f"eval.yml:3: workflow: {said}".partition("…")
    assert told == (begin if not more else told[0], hint)
    assert told[0].startswith(begin)


def test_everything_that_cannot_be_imported_is_in_one_message(folder):
    (folder / "judges.py").write_text("GRADE = 3\nclass Judge:\n    def call(self): ...\n")
    said, hint = refusal(
        "dataset:\n  python: rows:all\nworkflow: app:anwser\nevaluators:\n  a: judges:grade\n"
        "  b: judges:GRADE\n  c: judges:Judge\n  d: app:answer\n"
    )
    assert said.splitlines() == [
        "eval.yml:2: dataset.python: no module named 'rows'",
        "  hint: searched next to this file and in the installed packages",
        "eval.yml:3: workflow: app has no 'anwser'",
        "  hint: did you mean 'answer'?",
        "eval.yml:5: evaluators.a: judges has no 'grade'",
        "  hint: did you mean 'GRADE'?",
        "eval.yml:6: evaluators.b: judges:GRADE is of type int, which is not callable",
        (
            "eval.yml:7: evaluators.c: judges:Judge: Judge is a class: give an instance of it, "
            "Judge(…)"
        ),
    ]
    assert hint is None


def test_an_evaluator_that_wants_what_is_not_there_is_refused(folder):
    (folder / "judges.py").write_text("def grade(answer, gold): return 1\n")
    said, _ = refusal(GOOD + "evaluators:\n  a: judges:grade\n")
    assert said.startswith(
        "eval.yml:4: evaluators.a: judges:grade: a takes 'answer': an evaluator's parameters are "
        "some of output, expected, input, item, trace, by these names"
    )


def test_a_module_of_the_same_name_that_was_there_first_is_not_taken_for_it(folder):
    (folder / "json.py").write_text("def answer(x): return x\n")
    said, hint = refusal("dataset: questions.jsonl\nworkflow: json:answer\n")
    assert said.startswith(
        "eval.yml:2: workflow: json.py next to this file is not the module 'json' that is already "
        "imported, from "
    )
    assert hint == "rename one of them"


def test_two_files_in_two_folders_do_not_get_each_others_modules(folder):
    prepared(GOOD)
    other = folder / "other"
    other.mkdir()
    (other / "app.py").write_text("def answer(x): return 'other'\n")
    (other / "eval.yml").write_text("dataset: ../questions.jsonl\nworkflow: app:answer\n")
    with pytest.raises(ConfigError, match="app.py next to this file is not the module 'app'"):
        load_config(other / "eval.yml").prepare()


def test_a_module_from_the_environment_is_not_shown(folder, monkeypatch):
    monkeypatch.setenv("S", "sk_12345678")
    flow = "dataset: questions.jsonl\nworkflow: "
    assert refusal(flow + "${S}:answer\n")[0] == (
        "eval.yml:2: workflow: no module named '${S}:answer'"
    )
    assert refusal(flow + "app:${S}\n")[0] == (
        "eval.yml:2: workflow: app:${S} names something its module does not have"
    )


def test_a_secret_in_what_a_module_raises_is_masked(folder, monkeypatch):
    monkeypatch.setenv("MY_API_KEY", "sk-12345678")
    (folder / "app.py").write_text(
        "import os\nraise ValueError('bad key ' + os.environ['MY_API_KEY'])\n"
    )
    assert refusal(GOOD)[0] == (
        "eval.yml:2: workflow: app cannot be imported: app.py:2: ValueError: bad key [redacted]"
    )


def test_an_interrupt_while_importing_goes_through(folder):
    (folder / "app.py").write_text("raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        prepared(GOOD)


# What the file names, and where.
COLUMNS = "the columns are 'id', 'question', 'answer'"
MISSING = {
    "id": ("{path: questions.jsonl,\n  id: nocol}", "app:answer", "2: dataset.id"),
    "input": ("{path: questions.jsonl,\n  input: nocol}", "app:answer", "2: dataset.input"),
    "expected": (
        "{path: questions.jsonl,\n  expected: nocol}",
        "app:answer",
        "2: dataset.expected",
    ),
    "filter": (
        "{path: questions.jsonl,\n  filter: {nocol: x}}",
        "app:answer",
        "2: dataset.filter",
    ),
    "url": ("questions.jsonl", "\n  http: 'http://x/{{question}}/{{nocol}}'", "3: workflow.http"),
    "evaluator": (
        "questions.jsonl",
        "app:answer\nevaluators:\n  a:\n    {type: trajectory,\n    expected_column: nocol}",
        "6: evaluators.a.expected_column",
    ),
    "body": (
        "questions.jsonl",
        "\n  http:\n    url: http://x\n    body:\n      a: ['{{input}}', 'x {{ nocol }}']",
        "6: workflow.http.body.a.1",
    ),
}


@pytest.mark.parametrize(("dataset", "workflow", "place"), MISSING.values(), ids=MISSING)
def test_a_column_that_the_dataset_lacks_is_said_with_its_line(dataset, workflow, place):
    ready = prepared(f"dataset: {dataset}\nworkflow: {workflow}\n")
    with pytest.raises(ConfigError) as caught:
        limpet.plan(ready.dataset, ready.workflow, save=False)
    assert str(caught.value) == f"eval.yml:{place}: there is no column 'nocol'; {COLUMNS}"


def test_a_dataset_without_an_input_is_said_with_its_line(folder):
    (folder / "questions.jsonl").write_text('{"prompt": "x"}\n')
    ready = prepared(GOOD)
    with pytest.raises(ConfigError) as caught:
        limpet.plan(ready.dataset, ready.workflow, save=False)
    assert str(caught.value) == (
        "eval.yml:1: dataset: there is no column 'question' or 'input'; the columns are 'prompt'"
    )
    assert caught.value.hint.startswith("name the input column: input: ")
