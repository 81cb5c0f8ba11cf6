"""What a NAT configuration describes, and how problems are reported, without running it."""

import json
from pathlib import Path

import pytest

import limpet
from limpet.config.yaml_file import read_tree
from limpet.errors import ConfigError
from limpet.integrations.nat import Flags, load_nat_config, owns

START = """\
workflow: {_type: react_agent, llm_name: nim}
llms: {nim: {_type: nim, model_name: m, api_key: nvapi-123456789}}
eval:
  general:
    output_dir: ./out
    dataset: {_type: json, file_path: data.json}
"""
SERVED = Flags(endpoint="http://localhost:8000")


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    rows = [
        {"id": "001", "question": "1 + 1", "answer": "2", "lang": "en"},
        {"id": "1e5", "question": "2 + 2", "answer": "4", "lang": "fr"},
    ]
    (tmp_path / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(text, flags=SERVED):
    Path("config.yml").write_text(text, encoding="utf-8")
    return load_nat_config("config.yml", flags)


def refusal(text, flags=SERVED):
    with pytest.raises(ConfigError) as caught:
        loaded(text, flags)
    return str(caught.value), caught.value.hint


def general(more):
    """Return a configuration with more lines in `eval.general`, from line 7 on."""
    return START + more


# ---- whose file it is ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "theirs"),
    [
        ("eval: {}\n", True),
        ("base: other.yml\n", True),
        ("dataset: x.json\nworkflow: a:b\n", False),
        ("dataset: x.json\neval: {}\n", False),
        ("[]\n", False),
    ],
)
def test_a_file_with_eval_at_its_top_is_the_toolkits(text, theirs):
    assert owns(read_tree(text, "some.yml")) is theirs


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("llms: {}\nevl: {}\n", "some.yml:2: unknown key 'evl'", "did you mean 'eval'?"),
        ("llms: {}\nworkflow: {}\n", "some.yml:1: has no 'eval'", "add eval:"),
    ],
)
def test_a_file_of_the_toolkit_without_eval_is_not_taken_for_an_eval_yml(text, message, hint):
    with pytest.raises(ConfigError) as caught:
        owns(read_tree(text, "some.yml"))
    assert message in str(caught.value)
    assert hint in caught.value.hint


def test_an_unset_variable_in_the_toolkits_blocks_is_noted_where_they_are_used(monkeypatch):
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    text = START.replace("nvapi-123456789", "'${NO_SUCH_KEY}'")
    note = "llms.nim.api_key: ${NO_SUCH_KEY} is not set in the environment"
    assert any(note in line for line in loaded(text, Flags()).remarks)
    assert not any(note in line for line in loaded(text, SERVED).remarks)


# ---- the keys -----------------------------------------------------------------------------------


def test_the_usual_keys_become_what_evaluate_takes(folder):
    config = loaded(START + "    max_concurrency: 3\n    workflow_alias: bot\n")
    ready = config.prepare()
    assert (config.name, config.run, config.trials) == ("bot", folder / "out", 1)
    assert [(item.id, item.input, item.expected) for item in ready.dataset] == [
        ("001", "1 + 1", "2"),
        ("1e5", "2 + 2", "4"),
    ]
    assert ready.options["pace"] == limpet.Pace("auto", max_concurrency=3)
    assert (ready.nat_files, ready.written_events) == (True, ("LLM_END", "TOOL_END"))
    assert ready.options["timeout"] == 300


def test_a_call_is_tried_again_a_few_times_and_as_often_as_is_asked():
    options = loaded(START).prepare().options
    assert options["retry"] == limpet.Retry(3, max_timeouts=1)
    flags = Flags(endpoint="http://localhost:8000", max_retries=0, endpoint_timeout_s=7)
    options = loaded(START, flags).prepare().options
    assert (options["retry"], options["timeout"]) == (0, 7)


def test_output_dir_wins_over_the_plain_one_and_there_is_a_default(folder):
    assert loaded(START + "    output: {dir: ./other}\n").run == folder / "other"
    bare = START.replace("    output_dir: ./out\n", "")
    assert loaded(bare).run == folder / ".tmp/nat/examples/default"


def test_structure_names_are_the_columns(folder):
    rows = [{"n": "q1", "q": "Why?", "a": "So.", "question": "not this"}]
    (folder / "data.json").write_text(json.dumps(rows), encoding="utf-8")
    text = START.replace(
        "data.json}", "data.json, id_key: n, structure: {question_key: q, answer_key: a}}"
    )
    (item,) = loaded(text).prepare().dataset
    assert (item.id, item.input, item.expected) == ("q1", "Why?", "So.")


@pytest.mark.parametrize(
    ("structure", "said"),
    [
        ("trajectory_key: generated_answer", "also that of generated_answer_key"),
        ("generated_answer_key: id", "also that of id_key"),
        ("generated_answer_key: _limpet", "reserved"),
        ("trajectory_key: output_metadata", "reserved"),
    ],
)
def test_columns_that_would_write_over_an_answer_are_refused(structure, said):
    text, hint = refusal(START.replace("data.json}", f"data.json, structure: {{{structure}}}}}"))
    assert f"structure.{structure.partition(':')[0]}: " in text
    assert said in text
    assert hint == "give it another name"


def test_a_disabled_structure_asks_the_whole_row_and_writes_bare_outputs():
    ready = loaded(START.replace("data.json}", "data.json, structure: {disable: true}}")).prepare()
    first = next(iter(ready.dataset))
    assert json.loads(first.input) == {
        "id": "001", "question": "1 + 1", "answer": "2", "lang": "en",
    }  # fmt: skip
    assert (first.id, first.expected, set(first.row)) == (
        "001", None, {"id", "question", "answer", "lang"},
    )  # fmt: skip
    assert ready.bare_outputs is True


@pytest.mark.parametrize(
    ("keep", "left"),
    [
        ("{allowlist: {field: {lang: [en]}}}", ["001"]),
        ("{denylist: {field: {id: ['0*']}}}", ["1e5"]),
        ("{allowlist: {field: {lang: ['*']}}, denylist: {field: {lang: ['f?']}}}", ["001"]),
    ],
)
def test_filters_allow_and_deny_with_globs(keep, left):
    text = START.replace("data.json}", f"data.json, filter: {keep}}}")
    assert [item.id for item in loaded(text).prepare().dataset] == left


def test_each_type_of_dataset_is_read(folder):
    row = '{"id": "007", "question": "Q", "answer": "A"}\n'
    (folder / "d.jsonl").write_text(row, encoding="utf-8")
    (folder / "d.csv").write_text("id,question,answer\n007,Q,A\n", encoding="utf-8")
    for kind in ("jsonl", "csv"):
        text = START.replace(
            "_type: json, file_path: data.json", f"_type: {kind}, file_path: d.{kind}"
        )
        assert [item.id for item in loaded(text).prepare().dataset] == ["007"]


def test_a_custom_dataset_is_a_function_of_the_users(folder):
    (folder / "nat_rows_plain.py").write_text(
        "def rows(file_path, n):\n"
        "    return [{'id': i, 'question': f'{file_path} {i}'} for i in range(n)]\n",
        encoding="utf-8",
    )
    text = START.replace(
        "_type: json, file_path: data.json",
        "_type: custom, function: nat_rows_plain.rows, file_path: x.bin, kwargs: {n: 2}",
    )
    assert [item.id for item in loaded(text).prepare().dataset] == ["0", "1"]


def test_a_custom_dataset_may_give_the_toolkits_items(folder):
    (folder / "nat_rows_items.py").write_text(
        "from types import SimpleNamespace as New\n"
        "def rows(file_path):\n"
        "    item = New(id='a', input_obj='Q', expected_output_obj='A', output_obj=None,\n"
        "               trajectory=[], expected_trajectory=[], full_dataset_entry={'lang': 'en'})\n"
        "    return New(eval_input_items=[item])\n",
        encoding="utf-8",
    )
    text = START.replace(
        "_type: json, file_path: data.json", "_type: custom, function: nat_rows_items:rows"
    )
    (item,) = loaded(text).prepare().dataset
    assert (item.id, item.input, item.expected, item.row["lang"]) == ("a", "Q", "A", "en")


def test_a_base_is_laid_under_and_its_lines_keep_their_file(folder):
    base = START.replace("data.json}", "data.json}\n    max_concurrency: 2\n    nonsense: 1")
    (folder / "base.yml").write_text(base, encoding="utf-8")
    config = loaded("base: base.yml\neval: {general: {max_concurrency: 5}}\n")
    assert config.remarks == [
        "base.yml:8: eval.general: unknown key 'nonsense', ignored as in nat eval"
    ]
    assert config.general.max_concurrency == 5
    assert config.run == folder / "out"


def test_overrides_take_the_kind_of_what_they_replace():
    flags = Flags(
        endpoint="http://localhost:8000",
        overrides=(
            ("eval.general.output_dir", "7"),
            ("eval.general.max_concurrency", "2"),
            ("eval.general.dataset.filter.allowlist.field.lang", "en,fr"),
        ),
    )
    text = START.replace("data.json}", "data.json, filter: {allowlist: {field: {lang: [de]}}}}")
    config = loaded(text, flags)
    assert (config.run.name, config.general.max_concurrency) == ("7", 2)
    assert len(list(config.prepare().dataset)) == 2


def overridden(*overrides):
    return loaded(START, Flags(endpoint="http://localhost:8000", overrides=overrides))


def test_an_override_creates_what_is_not_there_as_the_toolkit_does():
    config = overridden(
        ("llms.nim.base_url", "http://127.0.0.1:8000/v1"),
        ("llms.nim.timeout", "5"),
        ("functions.search.top_k", "3"),
        ("eval.general.output.dir", "there"),
        ("eval.general.max_concurrency", "3"),
    )
    llm = config.tree.data["llms"]["nim"]
    # The toolkit, too, makes a string of it: its models read a number from it.
    assert (llm["base_url"], llm["timeout"]) == ("http://127.0.0.1:8000/v1", "5")
    assert config.tree.data["functions"] == {"search": {"top_k": "3"}}
    assert (config.run.name, config.general.max_concurrency) == ("there", 3)
    assert config.remarks == []


def test_an_override_that_may_be_misspelt_is_a_note():
    assert overridden(("lms.nim.temperature", "1")).remarks == [
        (
            "--override lms.nim.temperature: the file has no 'lms' there, so it is added; "
            "did you mean 'llms'?"
        )
    ]


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("workflow._type.deeper", "1", "'workflow._type' has no keys to set"),
        ("llms.nim.temperature", "warm", "must be a number, like the value that it replaces"),
        ("llms.nim.max_tokens", "1.5", "must be an integer, like the value that it replaces"),
        ("llms.nim.streaming", "maybe", "must be true or false, like the value that it replaces"),
    ],
)
def test_an_override_of_another_type_is_refused_as_in_the_toolkit(path, value, said):
    text = START.replace("model_name: m", "temperature: 0.5, max_tokens: 5, streaming: true")
    flags = Flags(endpoint="http://localhost:8000", overrides=((path, value),))
    assert refusal(text, flags)[0] == f"--override {path}: {said}"


def test_the_environment_is_read_in_eval_and_left_alone_elsewhere(monkeypatch):
    monkeypatch.setenv("WHERE", "there")
    text = START.replace("./out", "./${WHERE}").replace("model_name: m", "model_name: '${NO_SUCH}'")
    config = loaded(text)
    assert config.run.name == "there"
    assert config.public["eval"]["general"]["output_dir"] == "./${WHERE}"


def test_yamls_words_for_true_are_taken():
    assert loaded(START + "    output: {dir: o, cleanup: yes}\n").general.output.cleanup is True


# ---- what is wrong is said with its line --------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said", "hint"),
    [
        (
            "    max_concurrency: 0\n",
            "config.yml:7: eval.general.max_concurrency: must be at least 1, not 0",
            None,
        ),
        (
            "    output: {custom_scripts: {x: {script: no.py}}}\n",
            "config.yml:7: eval.general.output.custom_scripts.x.script: no.py does not exist",
            "paths start at the current directory",
        ),
        (
            "    output: {custom_pre_eval_process_function: nothing}\n",
            ("config.yml:7: eval.general.output.custom_pre_eval_process_function: must be "
            "module.name or module:name, not 'nothing'"),
            None,
        ),
        ("    output: 3\n", "config.yml:7: eval.general.output: must be a mapping", None),
        (
            "  evaluators:\n    x: {_type: ragas, llm_name: nim}\n",
            ("config.yml:8: eval.evaluators.x._type: 'ragas' is an evaluator of the toolkit, which "
            "Limpet does not run here"),
            ("run with --no-evaluators, then score where the toolkit is installed: nat eval "
            "--config_file config.yml --skip_workflow --dataset out/workflow_output.json; "
            "or use similarity for the wording; a judge of your own for the meaning; "
            "or write your own: {_type: python, function: module:name}"),
        ),
        (
            "  evaluators:\n    x: {_type: trajectory, llm_name: nim}\n",
            "config.yml:8: eval.evaluators.x._type: 'trajectory' is an evaluator of the toolkit",
            "run with --no-evaluators, then score where the toolkit is installed: nat eval",
        ),
        (
            "  evaluators:\n    x:\n      _type: exact_matsch\n",
            "config.yml:9: eval.evaluators.x._type: unknown evaluator 'exact_matsch'",
            "did you mean 'exact_match'?",
        ),
        (
            "  evaluators:\n    x: {_type: numeric, tolerence: 1}\n",
            "config.yml:8: eval.evaluators.x: unknown key 'tolerence'",
            "did you mean 'tolerance'?",
        ),
        (
            "  evaluators:\n    workflow: {_type: exact_match}\n",
            "config.yml:8: evaluators: the name 'workflow': workflow, run,",
            None,
        ),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_with_its_line(more, said, hint):
    found, told = refusal(START + more)
    assert found.startswith(said)
    assert hint is None or (told or "").startswith(hint)


@pytest.mark.parametrize(
    ("dataset", "said", "hint"),
    [
        ("{file_path: dat.json}", "dat.json does not exist", "did you mean data.json?"),
        ("{_type: csv, file_path: data.json}", "data.json is not a .csv file", "write _type: json"),
        ("{_type: jsn, file_path: data.json}", "xls or custom, not 'jsn'", "did you mean 'json'?"),
        (
            "{file_path: data.json, remote_file_path: far/data.json, s3: {bucket: b}}",
            "downloading datasets needs the toolkit, which is not installed here",
            "download",
        ),
        ("{file_path: data.json, function: a.b}", "function: is only read with", None),
        ("{file_path: data.json, strcture: {}}", "unknown key 'strcture'", "did you mean"),
        ("{_type: custom}", "needs function", None),
        ("{}", "file_path is missing", "or give --dataset FILE"),
    ],
)
def test_a_wrong_dataset_is_said_with_its_line(dataset, said, hint):
    found, told = refusal(START.replace("{_type: json, file_path: data.json}", dataset))
    assert found.startswith("config.yml:6: eval.general.dataset")
    assert said in found
    assert hint is None or (told or "").startswith(hint)


def test_the_way_to_score_names_the_directory_of_the_run():
    text = START.replace("./out", "my runs") + "  evaluators: {x: {_type: percent_games_won}}\n"
    said, hint = refusal(text)
    assert said.endswith("unknown evaluator 'percent_games_won'")
    way = "--skip_workflow --dataset 'my runs/workflow_output.json'"
    assert "from a plug-in of the toolkit: run with --no-evaluators, then score" in hint
    assert hint.endswith(way)
    jobs = "    output: {dir: o, job_management: {append_job_id_to_output_dir: true}}\n"
    _, hint = refusal(START + jobs + "  evaluators: {x: {_type: ragas}}\n")
    assert "--dataset 'o/jobs/…/workflow_output.json'" in hint


def test_without_evaluators_those_of_the_file_may_be_anything():
    flags = Flags(endpoint="http://localhost:8000", no_evaluators=True)
    text = START + "  evaluators: {x: {_type: ragas, llm_name: nim}, y: 3}\n"
    assert loaded(text, flags).prepare().evaluators == {}


def test_what_is_left_out_without_harm_is_a_note_with_its_line():
    config = loaded(
        START
        + "    profiler: {enable: true}\n    validate_llm_endpoints: true\n"
        + "    output:\n      dir: ./out\n      s3: {bucket: b, secret_key: abcdefgh}\n"
        + "      write_atif_workflow_output: true\n      job_management: {max_jobs: 3}\n"
    )
    assert [note.partition(",")[0] for note in config.remarks] == [
        "config.yml:7: eval.general.profiler: needs the toolkit",
        "config.yml:8: eval.general.validate_llm_endpoints: not supported",
        "config.yml:11: eval.general.output.s3: needs the toolkit",
        "config.yml:12: eval.general.output.write_atif_workflow_output: needs the toolkit",
        "config.yml:13: eval.general.output.job_management.max_jobs: not supported",
    ]
    assert "abcdefgh" not in json.dumps(config.public)


def test_verbose_is_ignored_as_the_toolkits_published_files_have_it():
    (note,) = loaded(START + "    verbose: true\n").remarks
    assert note == "config.yml:7: eval.general.verbose: not supported, ignored"


def test_keys_that_the_toolkit_ignores_are_a_note_and_no_fault():
    text = START.replace("eval:\n", "eval:\n  timeout: 3\n")
    Path("after.py").touch()
    remarks = loaded(
        text + "    max_concurency: 3\n    output:\n      cleanupp: true\n"
        "      job_management: {keep: 3}\n"
        "      custom_scripts: {a: {script: after.py, when: {}}}\n"
    ).remarks
    assert remarks == [
        "config.yml:4: eval: unknown key 'timeout', ignored as in nat eval",
        (
            "config.yml:8: eval.general: unknown key 'max_concurency', ignored as in nat eval; "
            "did you mean 'max_concurrency'?"
        ),
        (
            "config.yml:10: eval.general.output: unknown key 'cleanupp', ignored as in nat eval; "
            "did you mean 'cleanup'?"
        ),
        (
            "config.yml:11: eval.general.output.job_management: unknown key 'keep', ignored as in "
            "nat eval"
        ),
        (
            "config.yml:12: eval.general.output.custom_scripts.a: unknown key 'when', "
            "ignored as in nat eval"
        ),
    ]


def test_several_faults_are_said_at_once():
    found, _ = refusal(START + "    max_concurrency: 0\n    per_input_user_id: 2\n")
    problems = [line for line in found.splitlines() if not line.startswith("  hint: ")]
    assert [line.split(": ")[0] for line in problems] == ["config.yml:7", "config.yml:8"]


def test_every_kind_of_fault_is_said_in_one_pass():
    found, _ = refusal(
        START.replace("_type: json, file_path: data.json", "_type: jsonl, file_path: no.jsonl")
        + "    max_concurrency: many\n    per_input_user_id: 2\n"
        + "    output: {dir: data.json, cleanup: perhaps}\n"
        + "  evaluators:\n    a: {_type: x}\n    b: {_type: python}\n"
        + "    c: {_type: numeric, tolerance: -1}\n    d: {_type: python, function: x}\n"
    )
    assert [line for line in found.splitlines() if not line.startswith("  hint: ")] == [
        "config.yml:6: eval.general.dataset.file_path: no.jsonl does not exist",
        "config.yml:7: eval.general.max_concurrency: must be an integer, not 'many'",
        "config.yml:8: eval.general.per_input_user_id: must be true or false, not 2",
        "config.yml:9: eval.general.output.cleanup: must be true or false, not 'perhaps'",
        "config.yml:9: eval.general.output.dir: data.json is a file, not a directory",
        "config.yml:11: eval.evaluators.a._type: unknown evaluator 'x'",
        "config.yml:12: eval.evaluators.b: function is missing",
        "config.yml:13: eval.evaluators.c.tolerance: must be a finite number, 0 or more, not -1",
        "config.yml:14: eval.evaluators.d.function: must be module.name or module:name, not 'x'",
    ]


def test_without_an_endpoint_the_toolkit_is_needed(monkeypatch):
    monkeypatch.setattr("limpet.integrations.nat.toolkit.is_installed", lambda: False)
    with pytest.raises(ConfigError, match="which is not installed here") as caught:
        loaded(START, Flags()).prepare()
    assert "pip install 'limpet[nat]'" in caught.value.hint
    assert "--endpoint" in caught.value.hint


def test_a_path_into_the_answer_that_is_none_is_said():
    flags = Flags(endpoint="http://localhost:8000", result_json_path="$.[")
    with pytest.raises(ConfigError, match="--result-json-path"):
        loaded(START, flags).prepare()


# ---- what the answers depend on -----------------------------------------------------------------


def fingerprint(text, flags=SERVED):
    return dict(loaded(text, flags).prepare().workflow.fingerprint)


def test_an_edit_of_the_workflow_counts_and_one_of_eval_or_a_secret_does_not():
    before = fingerprint(START)
    assert fingerprint(START + "    max_concurrency: 2\n") == before
    assert fingerprint(START.replace("nvapi-123456789", "nvapi-987654321")) == before
    assert fingerprint("general: {telemetry: {}}\n" + START) == before
    changed = fingerprint(START.replace("model_name: m", "model_name: n"))
    assert [name for name in before if before[name] != changed[name]] == ["llms"]


def test_a_file_that_an_evaluator_depends_on_counts(folder):
    (folder / "nat_graders.py").write_text("def grade(output): return 1\n", encoding="utf-8")
    own = "a: {_type: python, function: nat_graders.grade, depends_on: {files: [guide.md]}}"
    text = f"{START}  evaluators:\n    {own}\n"
    (folder / "guide.md").write_text("be kind", encoding="utf-8")
    before = dict(loaded(text).prepare().evaluators["a"].fingerprint)
    (folder / "guide.md").write_text("be brief", encoding="utf-8")
    assert dict(loaded(text).prepare().evaluators["a"].fingerprint) != before


def test_a_prompt_in_a_file_counts(folder):
    text = START.replace("llm_name: nim}", "llm_name: nim, prompt: file://p.txt}")
    (folder / "p.txt").write_text("be kind", encoding="utf-8")
    before = fingerprint(text)
    (folder / "p.txt").write_text("be brief", encoding="utf-8")
    assert fingerprint(text)["workflow"] != before["workflow"]
