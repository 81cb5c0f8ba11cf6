"""All problems of an `eval.yml` are in one message, with their lines, in plain words."""

import os
import sys
import time

import pytest
from unit.config.refusals import GOOD, a_folder, refusal  # noqa: F401 - a fixture

import limpet
from limpet.config import json_schema, load_config
from limpet.errors import ConfigError

BUILT_INS = "contains, exact_match, json_match, numeric, one_of, regex, similarity, trajectory"
SUFFIXES = ".json, .jsonl, .ndjson, .csv, .tsv, .parquet, .xlsx"


# What the file holds, what is said, and the hint.
REFUSED = {
    # The file as a whole
    "empty": (
        "",
        "eval.yml:1: the file is empty",
        "it needs at least: dataset: questions.jsonl and workflow: app:answer",
    ),
    "only comments": (
        "# nothing\n",
        "eval.yml:1: the file is empty",
        "it needs at least: dataset: questions.jsonl and workflow: app:answer",
    ),
    "a list": (
        "\n- a\n- b\n",
        "eval.yml:2: must be a mapping of keys to values, not a list",
        None,
    ),
    "a word": ("hello", "eval.yml:1: must be a mapping of keys to values, not 'hello'", None),
    "not UTF-8": (
        b"name: x\nnote: caf\xe9\n",
        "eval.yml:2: byte 0xe9 is not UTF-8",
        "save the file as UTF-8",
    ),
    "UTF-16": (
        GOOD.encode("utf-16"),
        "eval.yml:1: is UTF-16, not UTF-8",
        "save the file as UTF-8",
    ),
    "too large": (
        b"#" * (2**20 + 1),
        "eval.yml: is larger than 1 MB: not a configuration",
        "name an eval.yml",
    ),
    "a NAT configuration": (
        "llms: {}\nworkflow: {_type: react}\neval:\n  general: {}\n",
        ("eval.yml:3: 'eval' at the top level: this is a configuration of the NeMo Agent Toolkit"),
        "use limpet run, or limpet.integrations.nat.load_nat_config",
    ),
    # YAML
    "a tab": (
        "dataset:\n\tpath: x\n",
        "eval.yml:2: not valid YAML: found character '\\t' that cannot start any token",
        "this is a tab: indent YAML with spaces",
    ),
    "an open bracket": (
        GOOD + "pace: {concurrency: 3\n",
        "eval.yml:4: not valid YAML: expected ',' or '}', but got '<stream end>'",
        "a bracket is not closed, or a comma is missing",
    ),
    "an open quote": (
        GOOD + "name: 'x\n",
        "eval.yml:4: not valid YAML: found unexpected end of stream",
        "a quote or a bracket that was opened is not closed",
    ),
    "a colon in a text": (
        GOOD + "name: a: b\n",
        "eval.yml:3: not valid YAML: mapping values are not allowed here",
        "a string with ': ' needs quotes; or the line before has no ':'; or the indent is wrong",
    ),
    "two documents": (
        GOOD + "---\nname: x\n",
        "eval.yml:3: not valid YAML: found another document",
        "--- starts a second document here: move it to its own file",
    ),
    "an unknown alias": (
        GOOD + "name: *who\n",
        "eval.yml:3: not valid YAML: found undefined alias 'who'",
        "an alias *name needs an anchor &name before it",
    ),
    "a control character": (
        GOOD + "name: a\x01b\n",
        "eval.yml:3: not valid YAML: the character U+0001 is not allowed",
        None,
    ),
    "a character that is none": (
        GOOD + 'name: "\\UFFFFFFFF"\n',
        "eval.yml:3: not valid YAML",
        "check \\U and \\x escapes in double quotes",
    ),
    "half a character": (
        GOOD + 'name: "\\ud800"\n',
        "eval.yml:3: contains half a character, like \\ud800",
        None,
    ),
    "a Python tag": (
        GOOD + "name: !!python/object/apply:os.system [ls]\n",
        "eval.yml:3: the tag '!!python/object/apply:os.system' is not allowed",
        "an eval.yml holds strings, numbers, lists and mappings; for a literal ! use quotes",
    ),
    "a tag on a word": (
        GOOD + "name: !env NAME\n",
        "eval.yml:3: the tag '!env' is not allowed",
        "an eval.yml holds strings, numbers, lists and mappings; for a literal ! use quotes",
    ),
    "a key twice": (
        GOOD + "trials: 1\nname: x\ntrials: 2\n",
        "eval.yml:5: the key 'trials' appears twice",
        "the first is on line 3",
    ),
    "a key twice inside": (
        GOOD + "evaluators:\n  a: numeric\n  a: regex\n",
        "eval.yml:5: the key 'a' appears twice",
        "the first is on line 4",
    ),
    "a key that is a list": (
        GOOD + "? [a]\n: b\n",
        "eval.yml:3: a key must be a string, not a list or mapping",
        None,
    ),
    "an alias inside its anchor": (
        GOOD + "prices: &a {x: *a}\n",
        "eval.yml:3: is nested too deep, or an alias is inside its own anchor",
        None,
    ),
    "a merge of itself": (
        GOOD + "prices: &a {<<: *a}\n",
        "eval.yml:3: an alias is inside its own anchor",
        None,
    ),
    "a merge of a word": (
        GOOD + "prices: {<<: x}\n",
        "eval.yml:3: << needs a mapping, for example <<: *name",
        None,
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.replace(" ", "-"))
def test_what_is_wrong_is_said_with_its_line(case):
    text, said, hint = REFUSED[case]
    assert refusal(text) == (said, hint)


def test_all_faults_are_in_one_message_in_the_order_of_the_file():
    said, hint = refusal(
        "evaluators:\n  a: numerik\ntrials: three\ndataset: questions.jsn\nworkflow: app:answer\n"
        "pace: ${NOT_SET}\nrun:\n  pth: x\n"
    )
    assert said.splitlines() == [
        "eval.yml:2: evaluators.a: unknown built-in evaluator 'numerik'",
        f"  hint: did you mean 'numeric'?  (built in: {BUILT_INS}; your own: module:name)",
        "eval.yml:3: trials: must be an integer, not 'three'",
        "eval.yml:4: dataset: questions.jsn does not exist",
        "  hint: did you mean questions.jsonl?",
        "eval.yml:6: pace: ${NOT_SET} is not set in the environment",
        "  hint: set NOT_SET, here or in a file for --env-file, or give a default: ${NOT_SET:-…}",
        "eval.yml:8: run: unknown key 'pth'",
        "  hint: did you mean 'path'?  (known here: path, durability)",
    ]
    assert hint is None


def test_a_thousand_faults_are_counted():
    said, _ = refusal(GOOD + "".join(f"key{n}: 1\n" for n in range(1000)))
    assert said.splitlines()[0] == "eval.yml:3: unknown key 'key0'"
    assert said.splitlines()[-1] == "and 980 more"


def test_a_file_that_is_not_there_is_named_with_its_neighbour(folder):
    (folder / "eval.yaml").write_text(GOOD)
    with pytest.raises(ConfigError) as caught:
        load_config("eval.yml")
    assert str(caught.value) == "eval.yml: file not found"
    assert caught.value.hint == "did you mean 'eval.yaml'?"
    with pytest.raises(ConfigError) as caught:
        load_config("x.yml")  # only the suffix is alike
    assert caught.value.hint == "name an eval.yml, or create an example: limpet init first"


def test_a_directory_is_no_file(folder):
    with pytest.raises(ConfigError) as caught:
        load_config("data")
    assert str(caught.value) == "data: is a directory"
    assert caught.value.hint == "name the file in it: eval.yml"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read anything")
def test_a_file_that_may_not_be_read_is_said(folder):
    (folder / "eval.yml").write_text(GOOD)
    (folder / "eval.yml").chmod(0)
    with pytest.raises(ConfigError, match=r"^eval.yml: cannot be read: Permission denied$"):
        load_config("eval.yml")


def test_a_billion_laughs_are_refused_at_once():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    began = time.process_time()
    said, _ = refusal("\n".join(lines))
    assert said == "eval.yml:1: more than 100,000 values: do aliases repeat each other here?"
    assert time.process_time() - began < 5


def test_merges_that_multiply_are_refused_at_once():
    lines = ["a0: &a0 {x: 1}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 12)]
    began = time.process_time()
    said, _ = refusal("\n".join(lines))
    assert said.endswith(": more than 100,000 values: do aliases repeat each other here?")
    assert time.process_time() - began < 10


@pytest.mark.quick(3)
@pytest.mark.parametrize("text", ["- " * 5000, "[" * 5000, "{a: " * 5000])
def test_what_is_nested_too_deep_is_refused(text):
    assert refusal(text)[0].startswith("eval.yml:1: ")


def test_every_evaluator_of_the_package_can_be_asked_for():
    from limpet.config.evaluators import JUDGES
    from limpet.evaluators.coerce import BUILT_INS

    others = {"Evaluator", "Scored", "Scores", "as_evaluator", "as_evaluators", "evaluator"}
    assert set(BUILT_INS) | set(JUDGES) == set(limpet.evaluators.__all__) - others


def test_reading_a_file_imports_nothing_that_it_names(folder):
    (folder / "never.py").write_text("raise SystemExit('imported')")
    (folder / "eval.yml").write_text("dataset: {python: never:rows}\nworkflow: never:answer\n")
    load_config("eval.yml")
    assert "never" not in sys.modules
    assert json_schema()["title"] == "Limpet eval.yml"
