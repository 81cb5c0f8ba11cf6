"""Whatever stands in an `eval.yml`: a configuration, or a `ConfigError` with a line."""

import re
import tempfile
from pathlib import Path

import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from limpet.config import Config, load_config
from limpet.config.yaml_file import read_scalar
from limpet.errors import ConfigError

PLACE = re.compile(r"(eval\.yml:[0-9]+|--set .*?): \S", re.DOTALL)
KEYS = """
name dataset filter workflow trials evaluators pace retry timeout output path python version id
limit seed concurrency max_retries backoff base dir bare trace_filter type tolerance allow
""".split()  # noqa: SIM905 - a column of quotes is no easier to read
words = st.sampled_from(
    [*KEYS, "questions.jsonl", "app:answer", "auto", "numeric", "regex", "${HOME}", "${X", "$${",
     "${NOT_SET:-3}", "~", "no", "1.10", "1e999", ".nan", "<<", "*a", "&a", "!!str", "\t", "2m"]
)  # fmt: skip
marks = st.sampled_from([*list("\n\n\n:::-{}[],\"'#|>%@ ?&*!"), ": ", "\n  ", "- "])
texts = st.lists(st.one_of(words, marks, st.text(max_size=3)), max_size=25).map("".join)
leaves = st.one_of(
    words, st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.dates()
)
data = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), st.text(max_size=3)), inner, max_size=6),
    ),
    max_leaves=15,
)
shaped = st.dictionaries(st.sampled_from(KEYS[:10]), data, max_size=10)


def outcome(raw, overrides=()):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "questions.jsonl").write_text('{"id": 1, "question": "x"}\n')
        (folder / "eval.yml").write_bytes(raw)
        try:
            return load_config(folder / "eval.yml", overrides)
        except ConfigError as error:
            said, hint = str(error).replace(f"{folder}/", ""), error.hint
    for line in said.splitlines():
        assert PLACE.match(line) or line.startswith(("  hint: ", "and ")), said
    assert "pydantic" not in said.lower()
    assert said.replace("\n", "").isprintable()
    assert (hint or "").isprintable()
    return None


@given(texts)
@example("a: &a [*a]")
@example("&a ? *a : *a")
@example("dataset: questions.jsonl\nworkflow: a:b\ntrials: 2")
@example("%YAML 9.9\n---\na: 1")
@example("? - a\n: b")
@example("a: !!int x\nb: !!float y")
@example("a: !<tag:yaml.org,2002:map> x")
def test_any_text_is_a_configuration_or_an_error_with_a_line(text):
    outcome(text.encode("utf-8", "replace"))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_configuration_or_an_error_with_a_line(raw):
    outcome(raw)


@given(shaped)
def test_any_values_are_a_configuration_or_an_error_with_a_line(value):
    good = {"dataset": "questions.jsonl", "workflow": "app:answer"}
    outcome(yaml.safe_dump(good | value, allow_unicode=True).encode("utf-8", "replace"))


@given(st.lists(st.tuples(st.sampled_from(KEYS), words, texts), max_size=3))
def test_any_override_is_taken_or_named(parts):
    overrides = [f"{one}.{two}={value}" for one, two, value in parts]
    found = outcome(b"dataset: questions.jsonl\nworkflow: app:answer\n", overrides)
    assert found is None or isinstance(found, Config)


@given(st.one_of(st.integers(-(10**18), 10**18), st.floats(allow_nan=False), st.booleans()))
def test_what_json_writes_is_read_as_it_is(value):
    text = yaml.safe_dump(value).splitlines()[0]
    assert read_scalar(text) == value
