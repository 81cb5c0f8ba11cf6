"""The files about the configuration hold no secret, and still describe it."""

import json

import pytest
import yaml

from limpet.config.overrides import override
from limpet.config.yaml_file import read_tree
from limpet.errors import ConfigError
from limpet.integrations.nat import Flags, load_nat_config
from limpet.integrations.nat.finishing import write_config_files
from limpet.integrations.nat.loading import apply_override
from limpet.secrets.in_configs import masked, masked_text

MASK = "[redacted]"


def both(text):
    """Return what is kept of a file: by its text, and by its data."""
    return yaml.safe_load(masked_text(text)), masked(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ('api_key: "${KEY:-nvapi-real}"', {"api_key": "${KEY:-[redacted]}"}),
        ('api_key: "${KEY:-}"', {"api_key": "${KEY:-}"}),
        ('api_key: "nvapi-real${KEY}"', {"api_key": MASK}),
        (
            "base_url: https://h/v1?api-key=abc&n=1",
            {"base_url": f"https://h/v1?api-key={MASK}&n=1"},
        ),
        ("base_url: https://h?k=1&token=abc", {"base_url": f"https://h?k=1&token={MASK}"}),
        ("base_url: https://h?key=${KEY}", {"base_url": "https://h?key=${KEY}"}),
        ("{default_headers: {X-Any: abc}}", {"default_headers": {"X-Any": MASK}}),
        ("extra_headers: {A: 'Bearer ${T}'}", {"extra_headers": {"A": "Bearer ${T}"}}),
        ("env: {MY_TOKEN: abc, HOME: /h}", {"env": {"MY_TOKEN": MASK, "HOME": "/h"}}),
        ("env: [MY_TOKEN=abc, A=b]", {"env": [f"MY_TOKEN={MASK}", "A=b"]}),
        ("bearer: abc", {"bearer": MASK}),
        ("token_value: abc", {"token_value": MASK}),
        ("args: [--api-key, abc, --n, 3]", {"args": ["--api-key", MASK, "--n", 3]}),
        ("args: [--api-key=abc, --n=3]", {"args": [f"--api-key={MASK}", "--n=3"]}),
        ("args: [--token, --port, 80]", {"args": ["--token", "--port", 80]}),
        ("args: ['Authorization: Bearer abc']", {"args": [f"Authorization: {MASK}"]}),
        ("command: serve --api-key abc --n 3", {"command": f"serve --api-key {MASK} --n 3"}),
        ("api_key: !!int 12345678", {"api_key": MASK}),
        ("api_key: null", {"api_key": None}),
    ],
)
def test_a_secret_is_masked_wherever_it_stands(written, kept):
    assert both(written) == (kept, kept)


# ---- what is left -------------------------------------------------------------------------------


def test_an_alias_of_a_secret_is_masked():
    text = "llms:\n  a: {api_key: &k nvapi-real-1}\n  b: {other: *k, note: ask with nvapi-real-1}\n"
    kept = {"a": {"api_key": MASK}, "b": {"other": MASK, "note": f"ask with {MASK}"}}
    assert both(text) == ({"llms": kept}, {"llms": kept})


def test_an_anchor_that_is_a_secret_only_by_its_alias_is_masked():
    assert "nvapi" not in masked_text("first: &k nvapi-real-1\napi_key: *k\n")
    assert masked({"first": "nvapi-real-1", "api_key": "nvapi-real-1"})["first"] == MASK


@pytest.mark.parametrize("style", ["|", "|-", ">", ">+", "&k |", "!!str |"])
def test_a_block_is_masked_and_the_file_goes_on(style):
    block = f"private_key: {style}\n    line-one-1\n    line-two-2\n"
    kept = {"a": {"private_key": MASK, "model": "m"}, "b": "c"}
    assert both(f"a:\n  {block}  model: m\nb: c\n") == (kept, kept)


@pytest.mark.parametrize(
    "comment",
    [
        "# api_key: abc",
        "b: c  # was: {model: m, password: 'abc'}",
        "#   headers:\n#     X-Any: abc",
        "# export NGC_API_KEY=abc",
        "#- api_key: abc\r",
        "# see http://me:abc@host/",
    ],
)
def test_a_file_with_a_secret_in_a_comment_is_kept_without_comments(comment):
    assert yaml.safe_load(masked_text(f"a: 1\n{comment}\n")).get("a") == 1
    assert "abc" not in masked_text(f"a: 1\n{comment}\n")


def test_a_common_value_is_hidden_in_its_own_place_only():
    text = (
        "a: {password: test, api_key: 1234, secret: true, token: abc}\n"
        "default_headers: {X-Role: assistant, Accept: application/json, X-Title: My Agent}\n"
        "prompt: this is a test of abc, 1234 and application/json for My Agent\n"
        "role: assistant\n"
        "number: 1234\n"
        "truth: true\n"
        "short: abc\n"
    )
    for kept in both(text):
        assert kept["a"] == {"password": MASK, "api_key": MASK, "secret": True, "token": MASK}
        assert set(kept["default_headers"].values()) == {MASK}
        for key in ("prompt", "role", "number", "truth", "short"):
            assert kept[key] == yaml.safe_load(text)[key]


def test_a_file_without_secrets_is_kept_letter_by_letter():
    text = (
        "# why\na: &x [1, 'two', \"three\"]\r\nb: *x\nc: >-\n  folded\n  text\nd: {e: ~}  # end\n"
    )
    text += "# api_key: ${KEY}\n# max_tokens: 17, id_key: question\napi_key: ${KEY}\n"
    assert masked_text(text) == text
    assert masked_text("") == ""


# ---- the three files ----------------------------------------------------------------------------


def test_what_was_overridden_is_told_without_its_secrets(tmp_path):
    flags = Flags(
        endpoint="http://me:pw-1@h?api-key=SECRET-1",
        headers=(("Authorization", "SECRET-2"),),
        overrides=(
            ("llms.nim", "{_type: nim, api_key: SECRET-3}"),
            ("llms.nim.headers.X-Any", "SECRET-4"),
            ("llms.nim.api_key", "${KEY}"),
            ("llms.nim.max_tokens", "17"),
        ),
    )
    data = {"llms": {"nim": {"api_key": "SECRET-5"}}}
    text = "# SECRET-5 is in the base\nbase: other.yml\nllms: {nim: {api_key: &k SECRET-6}}\n"
    data["other"] = "SECRET-6"  # *k
    write_config_files(tmp_path, tmp_path / "config.yml", text, data, data, flags)
    for name in ("config_original.yml", "config_effective.yml", "config_metadata.json"):
        assert "SECRET" not in (tmp_path / name).read_text(encoding="utf-8")
    told = json.loads((tmp_path / "config_metadata.json").read_bytes())
    assert [one["value"] for one in told["overrides"]] == [MASK, MASK, "${KEY}", "17"]
    assert told["endpoint"] == f"http://{MASK}@h?api-key={MASK}"
    assert told["endpoint_headers"] == ["Authorization"]


@pytest.mark.parametrize("edited", ["eval: {other: 1}\n", "eval: [\n", None])
def test_the_file_is_kept_as_it_was_read_whatever_becomes_of_it(tmp_path, monkeypatch, edited):
    monkeypatch.chdir(tmp_path)
    rows = [{"id": "a", "question": "Q", "answer": "A"}]
    (tmp_path / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    file = tmp_path / "config.yml"
    text = (
        "eval:\n  general:\n    output_dir: out\n    dataset: {_type: json, file_path: data.json}\n"
    )
    file.write_text(text, encoding="utf-8")
    config = load_nat_config(file, Flags(endpoint="http://localhost:8000"))
    if edited is None:
        file.unlink()
    else:
        file.write_text(edited, encoding="utf-8")
    assert config.original == text
    config.run.mkdir()
    (config.run / "workflow_output.json").write_text("[\n]\n", encoding="utf-8")
    said = []
    assert config.finish(None, said.append, stopped=True), said
    assert (config.run / "config_original.yml").read_text(encoding="utf-8") == text


# ---- messages -----------------------------------------------------------------------------------


def refused(put, *given):
    tree = read_tree("llms: {nim: {_type: nim, api_key: a, temperature: 1}}\n", "config.yml")
    with pytest.raises(ConfigError) as error:
        put(tree, *given)
    assert error.value.__cause__ is None
    return str(error.value)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("llms.nim.api_key.x", "SECRET"),
        ("llms.nim.api_key=SECRET", "x"),
        ("llms.nim", "{api_key: SECRET"),
    ],
)
def test_an_override_that_is_refused_does_not_show_its_value(path, value):
    said = refused(apply_override, path, value)
    assert said.startswith(f"--override {path.partition('=')[0]}: ")
    assert "SECRET" not in said


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("llms.nim.api_key.x=SECRET", "llms.nim.api_key.x"),
        ("llms.nim._type.heders=SECRET", "llms.nim._type.heders"),
        ("llms.nim._type.x={api_key: SECRET}", "llms.nim._type.x"),
        ("llms.nim._type.x=http://me:SECRET@h", "llms.nim._type.x"),
        ("llms.nim.api_key SECRET", "llms.nim.api_key"),
        ("llms.nim.api_key=*SECRET", "llms.nim.api_key"),
        ("llms.nim={api_key: SECRET", "llms.nim"),
        ("llms.nim._type.x=3", "llms.nim._type.x=3"),
        ("llms.nim._type.x={api_key: '${KEY}'}", "llms.nim._type.x={api_key: '${KEY}'}"),
    ],
)
def test_a_set_that_is_refused_shows_its_value_only_if_that_is_no_secret(text, shown):
    said = refused(override, text)
    assert said.startswith(f"--set {shown}: ")
    assert "SECRET" not in said
