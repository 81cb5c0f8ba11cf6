"""The matrix of an eval.yml: its variants, their names, refusals, and `--only`."""

import pytest
from unit.config.refusals import GOOD, a_folder  # noqa: F401 - a fixture

from limpet.config import load_config, load_matrix
from limpet.errors import ConfigError


def matrix(text, *overrides):
    with open("eval.yml", "w", encoding="utf-8") as file:  # noqa: PTH123 - short
        file.write(GOOD + text)
    return load_matrix("eval.yml", overrides)


def names(text):
    return [variant.name for variant in matrix(text).variants]


def refused(text, *overrides):
    with pytest.raises(ConfigError) as caught:
        matrix(text, *overrides)
    return str(caught.value), caught.value.hint


def test_every_combination_is_a_variant_named_by_its_values():
    assert names("matrix: {workflow.args.model: [a, b], trials: [1, 2]}\n") == [
        "model=a,trials=1",
        "model=a,trials=2",
        "model=b,trials=1",
        "model=b,trials=2",
    ]


def test_a_file_without_a_matrix_has_none():
    assert matrix("") is None
    assert matrix("matrix:\n") is None
    assert matrix("matrix: {trials: [1, 2]}\n", "matrix=null") is None


def test_a_variant_is_the_file_with_its_values_set():
    variants = matrix("matrix:\n  trials: [2, 3]\n").variants
    configs = [load_config("eval.yml", (), variant) for variant in variants]
    assert [config.trials for config in configs] == [2, 3]
    assert [config.run.name for config in configs] == ["trials=2", "trials=3"]
    assert all("matrix" not in config.public for config in configs)


def test_a_wrong_value_is_reported_on_its_line_of_the_matrix():
    variants = matrix("matrix:\n  trials:\n    - 2\n    - many\n").variants
    with pytest.raises(ConfigError, match=r"eval.yml:6: trials: must be an integer, not 'many'"):
        load_config("eval.yml", (), variants[1])


def test_an_unknown_path_is_reported_on_its_line():
    variant = matrix("matrix:\n  workflow.argz.model: [a]\n").variants[0]
    with pytest.raises(ConfigError, match=r"eval.yml:4: workflow: unknown key 'argz'"):
        load_config("eval.yml", (), variant)


def test_values_have_names_that_can_be_read_and_a_digest_only_where_two_are_alike():
    text = "matrix: {workflow.args.x: [prompts/short.txt, b/long.md, openai/gpt-4.1, Be brief!]}\n"
    assert names(text) == ["x=short", "x=long", "x=gpt-4.1", "x=Be-brief"]
    first, second, other = names("matrix: {workflow.args.x: [a/b.txt, c/B.txt, d.txt]}\n")
    assert (first[:4], second[:4], other) == ("x=b-", "x=B-", "x=d.txt")
    assert first.casefold() != second.casefold()


def test_a_variant_stays_where_its_run_is_and_takes_no_other_directory():
    found = matrix("matrix: {workflow.args.x: [a/b.txt, 1, c]}\n")
    there = {"x=old": {"workflow.args.x": "a/b.txt"}, "x=1": {"workflow.args.x": "1"}}
    old, other, new = (variant.name for variant in found.named(there).variants)
    assert (old, new) == ("x=old", "x=c")
    assert other.startswith("x=1-")


def test_values_that_are_no_directory_names_get_safe_ones():
    slash, long, dots, listed = names(
        f"matrix: {{workflow.args.x: [openai/gpt-4, '{'word ' * 60}', .., [1, 2]]}}\n"
    )
    assert slash == "x=gpt-4"
    assert len(long) < 70
    assert ".." not in dots
    assert not set("/ [") & set(slash + long + dots + listed)


def test_values_that_differ_in_type_or_case_have_directories_of_their_own():
    found = names("matrix: {workflow.args.x: [1, '1', true, 'true', A, a, null, 1.0]}\n")
    assert len({name.casefold() for name in found}) == 8


def test_a_name_does_not_depend_on_the_other_values():
    assert (
        names("matrix: {workflow.args.x: [a/b]}\n")
        == names("matrix: {workflow.args.x: [c, a/b]}\n")[1:]
    )


def test_many_long_values_make_a_name_that_a_disk_takes():
    axes = "".join(f"  workflow.args.p{n}: ['{'é' * 60}']\n" for n in range(9))
    assert len(names(f"matrix:\n{axes}")[0].encode()) < 255


def test_equal_last_parts_are_told_apart():
    found = matrix("matrix: {workflow.args.model: [a], evaluators.judge.model: [b]}\n")
    assert list(found.labels.values()) == ["args.model", "judge.model"]


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("matrix: [a]\n", "eval.yml:3: matrix: must map paths to lists", "for example matrix"),
        ("matrix: {}\n", "must map paths to lists of values, not an empty mapping", "for example"),
        ("matrix: {trials: []}\n", "trials: must not be empty", "leave the key out"),
        ("matrix: {trials: 3}\n", "trials: must be a list of values, not 3", "for example [3]"),
        ("matrix: {trials: [1, 1]}\n", "1 appears twice: also as value 1", None),
        ("matrix: {workflow.args.x: [{a: 1}, {a: 1}]}\n", "a mapping appears twice", None),
        ("matrix: {workflow: {args: [a]}}\n", "not a mapping", "workflow.args: […]"),
        ("matrix: {workflow..x: [a]}\n", "'workflow..x' is not a path", "workflow.args.model"),
        ("matrix: {name: [a, b]}\n", "cannot vary name: the variants share one name", None),
        ("matrix: {run.path: [a, b]}\n", "cannot vary run.path", None),
        ("matrix: {workflow.args.api_key: [a, b]}\n", "secrets do not change answers", None),
        ("matrix: {workflow: [a:b], workflow.args.x: [1]}\n", "is inside workflow", "keep one"),
        (
            f"matrix: {{trials: {list(range(1, 502))}}}\n",
            "has 501 variants, more than 500",
            "split",
        ),
    ],
)
def test_what_is_refused(text, message, hint):
    said, hinted = refused(text)
    assert message in said
    assert hint is None or hint in hinted


def test_a_path_that_set_sets_must_not_vary():
    said, hint = refused("matrix: {trials: [1, 2]}\n", "trials=3")
    assert "--set and the matrix set trials" in said
    assert "--only trials=" in hint


def test_only_chooses_variants():
    found = matrix("matrix: {workflow.args.model: [a, b], workflow.args.t: [0, 0.5]}\n")

    def chosen(*texts):
        return [variant.name for variant in found.chosen(texts)]

    assert chosen("model=a") == chosen("workflow.args.model=a") == ["model=a,t=0", "model=a,t=0.5"]
    assert chosen("model=a", "model=b", "t=0") == ["model=a,t=0", "model=b,t=0"]
    assert chosen("model=b,t=0.5") == ["model=b,t=0.5"]
    assert len(chosen()) == 4
    for text, message in {
        "modle=a": "did you mean",
        "model=c": "its values: a, b",
        "model": "for example --only model=a",
    }.items():
        with pytest.raises(ConfigError) as caught:
            chosen(text)
        assert message in caught.value.hint


def test_a_file_with_a_matrix_is_not_one_configuration():
    matrix("matrix: {trials: [1, 2]}\n")
    with pytest.raises(ConfigError, match="eval.yml:3: the file has a matrix"):
        load_config("eval.yml")
