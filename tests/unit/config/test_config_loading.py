"""What an `eval.yml` describes: short and long forms, the environment, and `--set`."""

import json
import re
import sys
from dataclasses import fields
from pathlib import Path

import jsonschema
import pytest
from doc_blocks import GUIDES, blocks

import limpet
from limpet.config import json_schema, load_config
from limpet.config.matrix import matrix_of
from limpet.config.yaml_file import read_tree
from limpet.errors import ConfigError
from limpet.executors import Backoff
from limpet.run.options import RunOptions

FILTER = "workflow: app:answer\ndataset:\n  path: questions.jsonl\n  filter: "
GOOD = "dataset: questions.jsonl\nworkflow: app:answer\n"
PAGE = Path(__file__).parents[3] / "docs/reference/eval-yml.md"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder called bot with a dataset and a module, to stand in."""
    folder = tmp_path / "bot"
    folder.mkdir()
    monkeypatch.chdir(folder)
    monkeypatch.delenv("NOT_SET", raising=False)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "config_app", raising=False)
    (folder / "questions.jsonl").write_text('{"id": "1", "question": "x"}\n')
    (folder / "config_app.py").write_text("def answer(question): return question\n")
    return folder


def read(text, *overrides):
    Path("eval.yml").write_text(text)
    return load_config("eval.yml", overrides)


def prepared(text, *overrides):
    sys.modules.pop("config_app", None)
    return read(text.replace("app:answer", "config_app:answer"), *overrides).prepare()


def options(text, *overrides):
    return prepared(text, *overrides).options


def rows_kept(text, *overrides):
    return prepared(text, *overrides).dataset.filter


def refusal(text, *overrides):
    with pytest.raises(ConfigError) as caught:
        read(text, *overrides)
    return str(caught.value)


def test_the_shortest_file_has_defaults(folder):
    config = read(GOOD)
    assert (config.path, config.name, config.trials) == (folder / "eval.yml", "bot", 1)
    assert config.run == folder / "runs" / "bot"
    assert config.public == {"dataset": "questions.jsonl", "workflow": "app:answer"}
    assert options(GOOD) == {}


def test_a_file_of_another_name_names_the_evaluation(folder):
    (folder / "nightly.yml").write_text(GOOD)
    config = load_config(folder / "nightly.yml")
    assert (config.name, config.run) == ("nightly", folder / "runs" / "nightly")


def test_paths_are_relative_to_the_file_wherever_one_stands(folder, tmp_path, monkeypatch):
    (folder / "eval.yml").write_text(GOOD + "run: ../out\n")
    monkeypatch.chdir(tmp_path)
    config = load_config("bot/eval.yml")
    assert config.run == folder / ".." / "out"
    (folder / "eval.yml").write_text("x: 1\n" + GOOD)
    with pytest.raises(ConfigError, match=r"^bot/eval\.yml:1: unknown key 'x'"):
        load_config("bot/eval.yml")


def test_a_folder_above_has_a_name_all_the_same(folder, monkeypatch):
    (folder / "eval.yml").write_text(GOOD)
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    config = load_config("../eval.yml")
    assert (config.path, config.name) == (folder / "eval.yml", "bot")


def test_a_home_is_found(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    assert read("workflow: app:answer\ndataset: ~/questions.jsonl\nrun: ~/r").run == folder / "r"


def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(folder):
    (folder / "eval.yml").write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_config("eval.yml").trials == 1


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("pace: auto", "pace: {concurrency: auto}"),
        ("pace: 8", "pace: {concurrency: 8}"),
        ("retry: 5", "retry: {max_retries: 5}"),
        ("timeout: 90", "timeout: 1.5m"),
        ("timeout: 90s", "timeout: 90000 ms"),
        ("timeout: 1h", "timeout: 3.6e3"),
    ],
)
def test_a_short_form_is_its_long_form(short, long):
    assert options(GOOD + short) == options(GOOD + long) != {}


def test_every_option_reaches_evaluate_by_its_name(folder):
    ready = prepared(
        "dataset: {path: questions.jsonl, id: id, input: question, expected: a, on_bad_row: skip,"
        " limit: 3, sample: 4, shuffle: true, seed: -1,"
        " filter: {deny: {lang: [no, 7, 007, 2026-11-14, null]}}}\nworkflow: app:answer\n"
        "run: {path: x, durability: flush}\n"
        "pace: {concurrency: auto, max_concurrency: 64}\n"
        "retry: {max_retries: 2, max_timeouts: 0, backoff: {base: 200ms, cap: 4}}\n"
        "retry_failed: false\n"
        "timeout: 2m\non_change: keep\nsecrets: [hunter22]\nfail_fast: false\n"
        "output: {nat: {bare: true, trace_filter: [LLM_END]}}\n"
    )
    asked = {part.name: getattr(ready.dataset, part.name) for part in fields(limpet.Dataset)}
    assert limpet.Dataset(**asked) == limpet.Dataset(
        folder / "questions.jsonl",
        id="id",
        input="question",
        expected="a",
        on_bad_row="skip",
        limit=3,
        sample=4,
        shuffle=True,
        seed=-1,
        filter={"deny": {"lang": ["no", 7, "007", "2026-11-14", None]}},
    )
    assert ready.run == limpet.Run(folder / "x", durability="flush")
    assert ready.options == {
        "pace": limpet.Pace("auto", max_concurrency=64),
        "retry": limpet.Retry(2, Backoff(0.2, 4.0), max_timeouts=0),
        "retry_failed": False,
        "timeout": 120.0,
        "on_change": "keep",
        "secrets": ["hunter22"],
        "fail_fast": False,
    }
    assert (ready.nat_files, ready.bare_outputs, ready.written_events) == (True, True, ["LLM_END"])


def test_the_file_has_the_names_of_evaluate():
    schema = json_schema()

    def keys_of(section):
        reference = next(
            form["$ref"] for form in schema["properties"][section]["anyOf"] if "$ref" in form
        )
        return set(schema["$defs"][reference.rpartition("/")[2]]["properties"])

    of_a_call = {"redo", "show", "watcher"}
    with_the_workflow = {"version", "depends_on"}
    options = set(RunOptions.__annotations__) - of_a_call - with_the_workflow
    assert {"dataset", "workflow", "evaluators", "run", "trials", *options} <= set(
        schema["properties"]
    )
    assert with_the_workflow <= keys_of("workflow")
    objects = {"source", "pacer", "cost", "classify"}  # no file can hold them
    groups = {"dataset": limpet.Dataset, "pace": limpet.Pace}
    groups |= {"retry": limpet.Retry, "run": limpet.Run}
    for section, group in groups.items():
        assert {field.name for field in fields(group)} - objects <= keys_of(section)


def test_secrets_may_be_kept_as_they_are_and_are_never_public():
    assert options(GOOD + "mask: false\n") == {"mask": False}
    assert "hunter22" not in json.dumps(read(GOOD + "secrets: [hunter22]\n").public)


@pytest.mark.parametrize("word", ["no", "on", "2026-11-14", "12:30", "007", "0x1f", "1_000"])
def test_a_word_that_old_yaml_takes_for_something_else_is_a_text(word):
    config = read(GOOD + f"name: {word}\nevaluators: {{no: numeric}}\n")
    assert config.name == word
    assert list(config.public["evaluators"]) == ["no"]


def test_anchors_aliases_and_merges_are_followed():
    told = rows_kept(
        FILTER + "\n    allow: &both {lang: en, level: 1}\n"
        "    deny:\n      level: 2\n      <<: *both\n"
    )
    assert told == {
        "allow": {"lang": ["en"], "level": [1]},
        "deny": {"lang": ["en"], "level": [2]},
    }


def test_a_key_with_nothing_behind_it_is_as_if_it_were_not_there():
    assert options(GOOD + "name:\nevaluators:\nrun:\npace:\n  concurrency:\nretry: ~\n") == {}


def test_the_environment_is_put_in_and_read_as_yaml(monkeypatch):
    monkeypatch.setenv("TRIALS", "4")
    monkeypatch.setenv("LANG_OF", "en: {x: 1}")
    monkeypatch.setenv("EMPTY", "")
    text = FILTER + "{lang: '${LANG_OF}', n: '${TRIALS}', d: '$${X} $5'}\nname: run-${TRIALS}\n"
    text += 'trials: ${TRIALS}\npace: {concurrency: "${NOT_SET:-8}"}\n'
    config = read(text + "timeout: ${EMPTY:-2m}\nretry: ${EMPTY:-}\n")
    assert (config.trials, config.name) == (4, "run-4")
    ready = prepared(text + "timeout: ${EMPTY:-2m}\nretry: ${EMPTY:-}\n")
    assert ready.options == {"pace": limpet.Pace(8), "timeout": 120.0}
    assert ready.dataset.filter == {"allow": {"lang": ["en: {x: 1}"], "n": ["4"], "d": ["${X} $5"]}}


def test_a_name_of_digits_from_the_environment_is_a_text(monkeypatch):
    monkeypatch.setenv("BUILD", "1.10")
    assert read(GOOD + "name: ${BUILD}\n").name == "1.10"


def test_values_of_the_environment_are_not_public(monkeypatch):
    monkeypatch.setenv("SECRET", "sk-12345678")
    config = read(GOOD + "name: ${SECRET}\ntrials: ${NOT_SET:-2}\n", "run=${SECRET}/x")
    assert config.public == {
        "dataset": "questions.jsonl",
        "workflow": "app:answer",
        "name": "${SECRET}",
        "trials": "${NOT_SET:-2}",
        "run": "${SECRET}/x",
    }
    assert config.run.parent.name == "sk-12345678"
    json.dumps(config.public)


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("trials: ${S}", "trials: must be an integer, not the value of ${S}"),
        (
            "output: {nat: {bare: '${S}'}}",
            "output.nat.bare: must be true or false, not the value of ${S}",
        ),
        (
            "evaluators: {a: '${S}'}",
            "evaluators.a: unknown built-in evaluator the value of ${S}",
        ),
        (
            "evaluators: {a: {type: numeric, tolerance: '${S}'}}",
            "evaluators.a.tolerance: must be a finite number, 0 or more, not the value of ${S}",
        ),
        (
            "evaluators: {a: {type: regex, pattern: '(${S}'}}",
            "evaluators.a.pattern: the value of (${S} is not a valid regular expression",
        ),
        (
            "evaluators: {a: {type: json_match, ignore: ['${S}', 1]}}",
            "evaluators.a.ignore: json_match rejects a value from the environment",
        ),
        ("evaluators: {a: {python: '${S}'}}", "evaluators.a.python: must be module:name, …"),
    ],
)
def test_no_message_shows_what_the_environment_holds(line, said, monkeypatch):
    monkeypatch.setenv("S", "sk-12345678")
    told = refusal(GOOD + line)
    assert "sk-" not in told
    assert told.startswith(f"eval.yml:3: {said.removesuffix('…')}")


def test_a_dataset_from_the_environment_is_not_shown_either(monkeypatch):
    monkeypatch.setenv("S", "sk-12345678:x")
    assert refusal("workflow: app:answer\ndataset: ${S}/x.csv\n") == (
        "eval.yml:2: dataset: ${S}/x.csv does not exist"
    )


def test_set_overrides_what_the_file_says():
    text = GOOD + "evaluators: {close: numeric, own: 'a:b'}\npace: 3\ntrials: ${NOT_SET}\n"
    config = read(
        text,
        "trials=3",
        "pace.max_concurrency=8",
        "evaluators.close.tolerance=0.1",
        "evaluators.own.version='2'",
        "retry.backoff.cap=1s",
        "output.nat.trace_filter=[LLM_END, TOOL_END]",
        "dataset.filter.lang=en",
        "name=other",
        "name=last",
    )
    assert (config.trials, config.name) == (3, "last")
    assert config.public == {
        "dataset": {"path": "questions.jsonl", "filter": {"lang": "en"}},
        "workflow": "app:answer",
        "evaluators": {
            "close": {"type": "numeric", "tolerance": 0.1},
            "own": {"python": "a:b", "version": "2"},
        },
        "pace": {"concurrency": 3, "max_concurrency": 8},
        "trials": 3,
        "retry": {"backoff": {"cap": "1s"}},
        "output": {"nat": {"trace_filter": ["LLM_END", "TOOL_END"]}},
        "name": "last",
    }


def test_set_takes_a_value_away_and_leaves_an_alias_alone():
    text = FILTER + "{allow: &a {lang: en}, deny: *a}\ntrials: 4\n"
    config = read(text, "trials=", "dataset.filter.deny.lang=fr")
    assert config.trials == 1
    assert config.public["dataset"]["filter"] == {"allow": {"lang": "en"}, "deny": {"lang": "fr"}}


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("trials=x", "trials: must be an integer, not 'x'"),
        ("trials", "must be path=value"),
        ("=3", "must be path=value"),
        ("pace..x=3", "must be path=value"),
        ("pace.concurency=3", "pace: unknown key 'concurency'"),
        ("tirals=3", "unknown key 'tirals'"),
        ("trials.x=3", "'trials' has no keys to set"),
        ("name=[x", "not valid YAML: expected ',' or ']', but got '<stream end>'"),
        ("name=!!python/name:os.system", "the tag '!!python/name:os.system' is not allowed"),
        ("name=${NOT_SET}", "name: ${NOT_SET} is not set in the environment"),
        ("dataset=question.jsonl", "dataset: question.jsonl does not exist"),
        ("evaluators.a=numerc", "evaluators.a: unknown built-in evaluator 'numerc'"),
    ],
)
def test_a_wrong_set_is_named_in_place_of_a_line(override, said):
    assert refusal(GOOD + "trials: 2\n", override) == f"--set {override}: {said}"


def test_a_fault_of_the_file_stands_before_one_of_the_command_line():
    assert refusal(GOOD + "trials: x\n", "timeout=x").splitlines()[0].startswith("eval.yml:3: ")


def test_the_schema_is_one_and_takes_both_forms():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    check = jsonschema.Draft202012Validator(schema)
    good = {"dataset": "q.csv", "workflow": "app:answer"}
    for more in (
        {},
        {"workflow": {"python": "app:answer", "version": "3"}, "pace": 8, "trials": "${TRIALS:-3}"},
        {"dataset": {"path": "q.csv", "limit": 3}, "pace": {"max_concurrency": 8}, "retry": 3},
        {"evaluators": {"a": "numeric", "b": {"type": "numeric", "tolerance": 1}, "c": "x:y"}},
        {"dataset": {"path": "q.csv", "filter": {"lang": ["en"]}}, "timeout": "90s"},
        {"dataset": {"path": "q.csv", "filter": {"deny": {"lang": "en"}}}, "timeout": 3},
        {"run": "x", "mask": False, "on_change": "redo", "retry_failed": False},
        {"run": {"path": "x", "durability": "flush"}, "secrets": ["${PIN}"]},
    ):
        check.validate(good | more)
    for wrong in (
        {"workflw": "x:y"},
        {"trials": 0},
        {"trials": "three"},
        {"pace": "fast"},
        {"pace": {"concurency": 3}},
        {"workflow": "app"},
        {"evaluators": {"a": {"type": "numeric", "tolerence": 1}}},
        {"evaluators": {"a": {"type": "numeric", "tolerance": "x"}}},
        {"evaluators": {"a": "numerc"}},
        {"timeout": "2d"},
    ):
        assert not check.is_valid(good | wrong), wrong


def test_every_key_in_the_schema_says_what_it_is_for():
    schema = json_schema()
    for section in (schema, *schema["$defs"].values()):
        assert section["description"]
        for key, one in section["properties"].items():
            assert one.get("description") or "$ref" in one, key


def yaml_blocks():
    return [block for page in [PAGE, *GUIDES] for block in blocks(page, "yaml")]


@pytest.mark.parametrize("block", yaml_blocks(), ids=str)
def test_every_example_of_a_page_loads(block, folder, monkeypatch):
    """It is a whole file, or a part of one: then the rest is added."""
    for variable in {"OPENAI_API_KEY", *re.findall(r"\$\{(\w+)\}", block.text)}:
        monkeypatch.setenv(variable, f"key-in-{variable}")
    (folder / "prompts").mkdir()
    for name in ("answer", "tone", "quality", "polite", "short", "long"):
        (folder / "prompts" / f"{name}.txt").write_text("{{input}} {{output}}")
    if "against: runs/bot" in block.text:
        limpet.evaluate([{"question": "x"}], str.upper, [], run="runs/bot", show=False)
    text = block.text
    for needed in GOOD.splitlines():
        if not re.search(rf"^{needed.partition(':')[0]}:", text, re.MULTILINE):
            text += f"{needed}\n"
    for name in ("questions.csv", "book.xlsx"):
        (folder / name).write_text("")
    if re.search(r"^matrix:", text, re.MULTILINE):
        assert matrix_of(read_tree(text, "eval.yml")) is not None
        return
    config = read(text)
    jsonschema.Draft202012Validator(json_schema()).validate(config.public)


def test_prices_are_handed_on_by_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("questions.jsonl").write_text('{"id": "a", "question": "b"}\n', encoding="utf-8")
    text = "dataset: questions.jsonl\nworkflow: json:dumps\n"
    text += "prices:\n  gpt-x: {prompt: 2, cached: 0.5, cache_write: 2.5}\n"
    Path("eval.yml").write_text(text, encoding="utf-8")
    prepared = load_config("eval.yml").prepare()
    price = {"prompt": 2.0, "cached": 0.5, "cache_write": 2.5}
    assert prepared.options["prices"] == {"gpt-x": price}
    Path("eval.yml").write_text(text.replace("cached: 0.5", "promt: 1"), encoding="utf-8")
    with pytest.raises(ConfigError, match="eval.yml:4: prices.gpt-x: unknown key 'promt'"):
        load_config("eval.yml")
    Path("eval.yml").write_text(text.replace("0.5", "-1"), encoding="utf-8")
    with pytest.raises(ConfigError, match="prices.gpt-x.cached: must be at least 0"):
        load_config("eval.yml")
