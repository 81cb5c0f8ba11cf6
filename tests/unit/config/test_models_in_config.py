"""Problems of models, prompts and judges are reported with their lines, before any call."""

import asyncio
import json

import pytest
from jsonschema import Draft202012Validator
from unit.config.refusals import a_folder, refusal  # noqa: F401 - a fixture

from limpet.config import json_schema, load_config
from limpet.errors import ConfigError
from limpet.evaluators import Scored

DATA = "dataset: questions.jsonl\n"
ASKED = DATA + "workflow: {openai: http://localhost:1/v1, model: m, %s}\n"
MODELS = "models:\n  grader: {openai: http://localhost:1/v1, model: m}\n"
JUDGED = DATA + "workflow: app:answer\n" + MODELS + "evaluators:\n  right: {%s}\n"
EXAMPLE = "{openai: http://localhost:11434/v1, model: llama3.3}"
OTHERS = (
    "for any other provider, use openai with its compatible address, LiteLLM's proxy, or "
    "python: module:name with a function of yours"
)
PLACEHOLDER = "write {{column}}; for a literal '{{', put it into a column of the dataset"

# What the file holds, what is said, and the hint.
REFUSED = {
    "no prompt": (
        ASKED % "stream: true",
        "eval.yml:2: workflow: needs prompt, prompt_file or messages",
        f'write workflow: {EXAMPLE[:-1]}, prompt: "{{{{question}}}}"}}',
    ),
    "no model": (
        DATA + "workflow: {openai: http://x/v1, prompt: hi}\n",
        "eval.yml:2: workflow: needs model",
        f"for example {EXAMPLE}",
    ),
    "neither a server nor a model": (
        DATA + "workflow: {prompt: hi}\n",
        "eval.yml:2: workflow: needs model, or a provider and model",
        f'write workflow: {EXAMPLE[:-1]}, prompt: "{{{{question}}}}"}}',
    ),
    "a model that is not there": (
        DATA + MODELS + "workflow: {model: gradr, prompt: hi}\n",
        "eval.yml:4: workflow.model: no model 'gradr'",
        "did you mean 'grader'?  (models has grader)",
    ),
    "a judge's model that is not there": (
        JUDGED % "judge: gradr, of: correctness",
        "eval.yml:6: evaluators.right.judge: no model 'gradr'",
        "did you mean 'grader'?  (models has grader)",
    ),
    "no models at all": (
        DATA + "workflow: {model: gpt, prompt: hi}\n",
        "eval.yml:2: workflow.model: no model 'gpt'",
        f"add models: {{gpt: {EXAMPLE}}}",
    ),
    "a setting of another's model": (
        DATA + MODELS + "workflow: {model: grader, prompt: hi, organization: o}\n",
        "eval.yml:4: workflow.organization: works only with a provider, like openai",
        "put it under models.grader",
    ),
    "two prompts": (
        ASKED % "prompt: hi, prompt_file: notes.txt",
        (
            "eval.yml:2: workflow.prompt_file: cannot be used with prompt: keep one of "
            "prompt and prompt_file"
        ),
        None,
    ),
    "a prompt and messages": (
        ASKED % 'prompt: hi, messages: "{{history}}"',
        (
            "eval.yml:2: workflow.messages: cannot be used with prompt: keep one of "
            "prompt and messages"
        ),
        None,
    ),
    "no messages": (
        ASKED % "messages: []",
        "eval.yml:2: workflow.messages: must be a list of messages",
        None,
    ),
    "a prompt's file that is not there": (
        ASKED % "prompt_file: note.txt",
        "eval.yml:2: workflow.prompt_file: note.txt does not exist",
        "did you mean notes.txt?",
    ),
    "a prompt's file that is a folder": (
        ASKED % "prompt_file: data",
        "eval.yml:2: workflow.prompt_file: data is not a file",
        None,
    ),
    "a prompt's file that is a device": (
        ASKED % "prompt_file: /dev/null",
        "eval.yml:2: workflow.prompt_file: /dev/null is not a file",
        None,
    ),
    "a placeholder that is not closed": (
        ASKED % 'prompt: "{{ a"',
        "eval.yml:2: workflow.prompt: '{{ a' has no '}}'",
        PLACEHOLDER,
    ),
    "a key that is misspelt": (
        ASKED % "promt: hi",
        "eval.yml:2: workflow: unknown key 'promt'",
        (
            "did you mean 'prompt'?  (known here: openai, anthropic, gemini, ollama, bedrock, api, "
            "model, key, keys, params, reply, organization, api_version, stream, cache, prompt, "
            "prompt_file, messages, images, files, schema, headers, connect_timeout, "
            "first_byte_timeout, between_bytes_timeout, timeout, max_response_mb, version, "
            "depends_on)"
        ),
    ),
    "no address": (
        DATA + "workflow: {openai: localhost, model: m, prompt: hi}\n",
        "eval.yml:2: workflow.openai: must be the address of a server",
        "for example http://localhost:8000; placeholders are allowed in the path and query only",
    ),
    "an address with too much": (
        DATA + "models:\n  a:\n    openai: http://x/v1/chat/completions\n    model: m\n"
        "workflow: app:answer\n",
        "eval.yml:4: models.a.openai: must be the address without /chat/completions: http://x/v1",
        None,
    ),
    "two providers": (
        DATA + MODELS[:-2] + ", anthropic: }\nworkflow: app:answer\n",
        (
            "eval.yml:3: models.grader.anthropic: cannot be used with openai: keep one of "
            "openai and anthropic"
        ),
        None,
    ),
    "no provider": (
        DATA + "models:\n  a: {model: m}\nworkflow: app:answer\n",
        "eval.yml:3: models.a: needs openai, anthropic, gemini, ollama or bedrock",
        f"for example {EXAMPLE}; {OTHERS}",
    ),
    "a provider that has no file of its own": (
        DATA + "models:\n  a: {vertex: https://v, model: m}\nworkflow: app:answer\n",
        "eval.yml:3: models.a.vertex: there is no provider 'vertex'",
        OTHERS,
    ),
    "an openai without an address": (
        DATA + "models:\n  a: {openai: , model: m}\nworkflow: app:answer\n",
        "eval.yml:3: models.a.openai: needs the address of a server",
        f"for example {EXAMPLE}",
    ),
    "an address with the version": (
        DATA + "workflow: {anthropic: 'https://api.anthropic.com/v1/', model: m, prompt: hi}\n",
        (
            "eval.yml:2: workflow.anthropic: must be the address without /v1: "
            "https://api.anthropic.com"
        ),
        None,
    ),
    "a key twice": (
        ASKED % 'prompt: hi, keys: ["${SOME_KEY}", "${SOME_KEY}"]',
        "eval.yml:2: workflow.keys: ${SOME_KEY} appears twice",
        None,
    ),
    "a key and keys": (
        ASKED % 'prompt: hi, key: "${SOME_KEY}", keys: ["${OTHER_KEY}"]',
        "eval.yml:2: workflow.keys: cannot be used with key",
        None,
    ),
    "an API of another provider": (
        DATA + "workflow: {anthropic: , model: m, api: responses, prompt: hi}\n",
        "eval.yml:2: workflow.api: works only with openai",
        None,
    ),
    "what a provider cannot do": (
        DATA + "workflow: {anthropic: , model: m, prompt: hi, params: {seed: 1}}\n",
        "eval.yml:2: workflow.params: seed: anthropic does not support a seed",
        "openai, gemini, ollama do",
    ),
    "files that a provider cannot take": (
        DATA + "workflow: {ollama: , model: m, prompt: hi, files: '{{question}}'}\n",
        "eval.yml:2: workflow: ollama does not support files",
        "openai, responses, anthropic, gemini, bedrock do",
    ),
    "vectors of a provider that has none": (
        DATA + "models:\n  a: {anthropic: , model: m}\nworkflow: app:answer\n"
        "evaluators: {near: {embedding_similarity: a}}\n",
        "eval.yml:5: evaluators.near: anthropic does not support embeddings",
        "openai, responses, ollama do",
    ),
    "keys in the file": (
        ASKED % "prompt: hi, keys: [sk-literal-123456]",
        "eval.yml:2: workflow.keys.0: its value must not be in the file",
        "write ${NAME} in its place, and set the variable NAME in the environment",
    ),
    "a key in the file": (
        ASKED % "prompt: hi, key: sk-literal-123456",
        "eval.yml:2: workflow.key: its value must not be in the file",
        "write ${NAME} in its place, and set the variable NAME in the environment",
    ),
    "a key that is not set": (
        DATA + "workflow: app:answer\nmodels:\n  a:\n    openai: http://x/v1\n    model: m\n"
        "    key: ${NOT_SET}\n",
        "eval.yml:7: models.a.key: ${NOT_SET} is not set in the environment",
        "set NOT_SET, here or in a file for --env-file, or give a default: ${NOT_SET:-…}",
    ),
    "a key that is empty": (
        ASKED % 'prompt: hi, key: "${EMPTY_KEY}"',
        "eval.yml:2: workflow.key: the value of ${EMPTY_KEY} is empty",
        "set it to the key",
    ),
    "a role that is none": (
        ASKED % "messages: [{role: usr, content: a}]",
        (
            "eval.yml:2: workflow.messages: message 1 must have a role: system, developer, user, "
            "assistant, tool"
        ),
        None,
    ),
    "an image that is none": (
        ASKED % "prompt: hi, images: [3]",
        "eval.yml:2: workflow.images: must be a list of strings, for example ['{{photo}}']",
        None,
    ),
    "models in a list": (
        DATA + "workflow: app:answer\nmodels: [a]\n",
        (
            "eval.yml:3: models: must map names to models, like grader: {openai: …, model: …}, "
            "not a list"
        ),
        None,
    ),
    "a model in Python with settings": (
        DATA + "workflow: app:answer\nmodels:\n  a: {python: app:ask, model: x}\n",
        (
            "eval.yml:4: models.a.model: cannot be used with python: a model of your own has its "
            "own settings"
        ),
        None,
    ),
    "no ready prompt": (
        JUDGED % "judge: grader, of: corectness",
        (
            "eval.yml:6: evaluators.right.of: must be one of correctness, faithfulness, relevance, "
            "document_relevance, refusal, toxicity, conciseness, tool_choice, tool_arguments, not "
            "'corectness'"
        ),
        "did you mean 'correctness'?",
    ),
    "a prompt that shows nothing": (
        JUDGED % "judge: grader, prompt_file: notes.txt",
        (
            "eval.yml:6: evaluators.right.prompt_file: has no placeholder, so it shows the "
            "model nothing of an item"
        ),
        "write {{output}} where the answer goes, {{input}} and {{expected}} likewise",
    ),
    "no votes": (
        JUDGED % "judge: grader, of: correctness, votes: 0",
        "eval.yml:6: evaluators.right.votes: must be a whole number, 1 or more, not 0",
        None,
    ),
    "an unknown key of a judge": (
        JUDGED % "judge: grader, of: correctness, vote: 3",
        "eval.yml:6: evaluators.right: unknown key 'vote'",
        (
            "did you mean 'votes'?  (known here: judge, prompt, prompt_file, of, inputs, choices, "
            "votes, examples, reasks, params, range, group, higher_is_better)"
        ),
    ),
    "a judge that is misspelt": (
        JUDGED % "juge: grader, of: correctness",
        "eval.yml:6: evaluators.right: needs type, python or judge",
        (
            "did you mean 'judge'?  (type is one of contains, exact_match, json_match, numeric, "
            "one_of, regex, similarity, trajectory; python is module:name; judge names a model)"
        ),
    ),
    "a judge that is something else as well": (
        JUDGED % "judge: grader, type: exact_match",
        "eval.yml:6: evaluators.right.type: cannot be used with judge: keep one of judge and type",
        None,
    ),
    "a model twice in a jury": (
        JUDGED % "judge: [grader, grader], of: correctness",
        (
            "eval.yml:6: evaluators.right.judge: grader appears twice; to ask it several times, "
            "use votes=2"
        ),
        None,
    ),
    "a rating without a prompt": (
        JUDGED % "rating: grader",
        "eval.yml:6: evaluators.right: needs prompt or prompt_file",
        None,
    ),
    "a rubric without criteria": (
        JUDGED % "rubric: grader",
        "eval.yml:6: evaluators.right: needs criteria",
        None,
    ),
    "a run that is not there": (
        JUDGED % "pairwise: grader, against: runs/old",
        "eval.yml:6: evaluators.right.against: %s/runs/old: this run does not exist",
        "no runs are there; give the path of a run",
    ),
}


@pytest.mark.parametrize(
    ("text", "said", "hint"), REFUSED.values(), ids=[name.replace(" ", "-") for name in REFUSED]
)
def test_what_is_wrong_is_said_with_its_line(text, said, hint, folder, monkeypatch):
    for name, value in {"EMPTY_KEY": "", "SOME_KEY": "some-key", "OTHER_KEY": "other-key"}.items():
        monkeypatch.setenv(name, value)
    if "runs/old" in text:
        told, _ = refusal(text)
        assert told == said % folder
    else:
        assert refusal(text) == (said, hint)


def test_a_key_on_the_command_line_is_not_repeated():
    text = ASKED % "prompt: hi"
    told, _ = refusal(text, "workflow.key=sk-literal-123456")
    assert told == "--set workflow.key: workflow.key: its value must not be in the file"


def test_all_of_it_is_said_at_once():
    text = (
        DATA + "models:\n  grader: {openai: x, model: m}\n  other: {model: m}\n"
        "workflow: {model: gradr, prompt: '{{a'}\n"
        "evaluators:\n  right: {judge: othr, of: corectness}\n  good: {rating: grader}\n"
    )
    told, _ = refusal(text)
    lines = [line.partition(": ")[0] for line in told.splitlines() if "eval.yml" in line]
    assert lines == [f"eval.yml:{number}" for number in (3, 4, 5, 7, 8)]


def test_columns_that_a_template_names_must_be_there(folder):
    (folder / "judge.txt").write_text("Is {{output}} about {{topic}}?\n")
    (folder / "app.py").write_text("def score(output): return 1\n")
    (folder / "eval.yml").write_text(
        DATA + MODELS + "workflow: {model: grader, prompt: '{{qestion}} {{input}}'}\n"
        "evaluators:\n  right: {judge: grader, prompt_file: judge.txt}\n"
    )
    with pytest.raises(ConfigError) as caught:
        load_config("eval.yml").prepare().dataset.load()
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("eval.yml:4: workflow.prompt: ")
    assert lines[1] == "  hint: did you mean 'question'?"
    assert lines[2].startswith("eval.yml:6: evaluators.right.prompt_file: ")
    assert "'topic'" in lines[2]


def test_the_files_content_counts_and_its_path_does_not(folder):
    texts = {"a.txt": "Say {{question}}\n", "b.txt": "Say {{question}}", "c.txt": "{{question}}"}
    for name, text in texts.items():
        (folder / name).write_text(text)

    def fingerprint(more):
        (folder / "eval.yml").write_text(ASKED % more)
        return dict(load_config("eval.yml").prepare().workflow.fingerprint)

    written = fingerprint('prompt: "Say {{question}}"')
    assert fingerprint("prompt_file: a.txt") == fingerprint("prompt_file: b.txt") == written
    assert fingerprint("prompt_file: c.txt") != written


def test_a_model_by_name_is_the_same_as_in_the_workflow(folder):
    (folder / "eval.yml").write_text(ASKED % "prompt: hi")
    here = load_config("eval.yml").prepare().workflow
    (folder / "eval.yml").write_text(DATA + MODELS + "workflow: {model: grader, prompt: hi}\n")
    named = load_config("eval.yml").prepare().workflow
    assert dict(here.fingerprint) == dict(named.fingerprint)
    assert here.endpoint == named.endpoint


def test_a_model_of_ones_own(folder):
    (folder / "own_model.py").write_text("async def ask(messages, **params): return 'hi'\n")
    (folder / "eval.yml").write_text(
        DATA + "models: {mine: own_model:ask, gone: own_model:nothing}\n"
        "workflow: {model: mine, prompt: '{{question}}'}\n"
        "evaluators: {right: {judge: [mine, gone], of: relevance}}\n"
    )
    config = load_config("eval.yml")  # imports nothing
    with pytest.raises(ConfigError, match=r"^eval.yml:2: models.gone: own_model has no 'nothing'"):
        config.prepare()
    config = load_config("eval.yml", ["models.gone=null", "evaluators.right.judge=mine"])
    assert config.prepare().workflow.endpoint == "mine"


OWN = {
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "ollama": "http://localhost:11434",
    "bedrock": "https://bedrock-runtime.eu-west-1.amazonaws.com",
}


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("address", ["", "http://localhost:1/proxy"])
def test_a_provider_has_an_address_of_its_own(name, address, folder, monkeypatch):
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    flow = f"workflow: {{{name}: {address}, model: m, prompt: hi}}\n"
    shared = (
        f"models:\n  a:\n    {name}: {address}\n    model: m\nworkflow: {{model: a, prompt: hi}}\n"
    )
    for text in (flow, shared):
        (folder / "eval.yml").write_text(DATA + text)
        described = load_config("eval.yml").prepare().workflow.described
        assert described["model.address"].startswith(address or OWN[name])
        assert described["model.provider"] == name


def test_openai_speaks_responses_too(folder):
    (folder / "eval.yml").write_text(ASKED % "prompt: hi, api: responses")
    described = load_config("eval.yml").prepare().workflow.described
    assert described["model.provider"] == "responses"


def test_keys_are_kept_as_they_are_written(folder, monkeypatch):
    monkeypatch.setenv("MY_MODEL_KEY", "sk-value-123456")
    (folder / "eval.yml").write_text(
        DATA + "models:\n  a: {openai: 'http://u:password1@x/v1?api-key=q1w2e3r4', model: m, "
        'key: "${MY_MODEL_KEY}", headers: {X-Team: t0ps3cret}}\n'
        'workflow: {openai: http://x/v1, model: m, prompt: hi, key: "${MY_MODEL_KEY}"}\n'
    )
    monkeypatch.setenv("OTHER_KEY", "sk-ant-value-567890")
    text = (
        (folder / "eval.yml")
        .read_text()
        .replace(
            "workflow:",
            '  b: {anthropic: "http://u:password2@x", model: m, '
            'keys: ["${MY_MODEL_KEY}", "${OTHER_KEY:-sk-ant-default-1}"]}\nworkflow:',
        )
    )
    (folder / "eval.yml").write_text(text)
    config = load_config("eval.yml")
    kept = json.dumps(config.public)
    assert config.public["models"]["b"]["keys"][0] == "${MY_MODEL_KEY}"
    assert config.public["workflow"]["key"] == "${MY_MODEL_KEY}"
    for secret in ("sk-value-123456", "password1", "q1w2e3r4", "t0ps3cret", "password2"):
        assert secret not in kept
    assert "sk-ant-" not in kept
    ready = config.prepare()
    assert "sk-value-123456" in ready.workflow.secrets
    assert "sk-value-123456" not in repr(ready.workflow) + json.dumps(ready.workflow.described)


def test_the_schema_knows_models_prompts_and_judges():
    check = Draft202012Validator(json_schema())
    data = {"dataset": "q.jsonl", "workflow": {"model": "a", "prompt": "{{q}}"}}
    models = {
        "a": {"openai": "http://x/v1", "model": "m", "key": "${K}", "api": "responses"},
        "b": "own:model",
        "c": {"anthropic": True, "model": "m", "keys": ["${K}", "${L}"], "cache": True},
    }
    judges = {
        "right": {"judge": "a", "of": "correctness", "votes": 3},
        "jury": {"judge": ["a", "b"], "prompt_file": "p.txt", "choices": {"yes": 1, "no": 0}},
        "good": {"rating": "a", "prompt": "{{output}}", "scale": [1, 5]},
        "all": {"rubric": "a", "criteria": {"clear": "Is it clear?"}},
        "better": {"pairwise": "a", "against": "runs/old"},
        "theirs": {"python": "j:x", "inputs": {"context": "{{documents}}"}},
    }
    assert check.is_valid({**data, "models": models, "evaluators": judges})
    assert not check.is_valid({**data, "workflow": {"model": "a", "promt": "x"}})
    assert not check.is_valid({**data, "models": {"a": {"openai": "x", "key": "sk-literal"}}})
    assert not check.is_valid({**data, "evaluators": {"right": {"judge": "a", "vote": 3}}})


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("workflow.model", "[m, n]"),
        ("workflow.prompt_file", "[notes.txt, more.txt]"),
        ("models.grader.model", "[m, n]"),
        ("evaluators.right.votes", "[1, 3]"),
    ],
)
def test_models_and_prompts_can_vary(path, values, folder):
    from limpet.config import load_matrix

    (folder / "more.txt").write_text("{{question}}")
    (folder / "eval.yml").write_text(
        DATA + MODELS + "workflow: {openai: http://x/v1, model: m, prompt_file: notes.txt}\n"
        "evaluators: {right: {judge: grader, of: relevance}}\n"
        f"matrix: {{{path}: {values}}}\n"
    )
    variants = load_matrix("eval.yml").variants
    ready = [load_config("eval.yml", variant=variant).prepare() for variant in variants]
    what = "evaluators" if path.split(".")[0] != "workflow" else "workflow"
    steps = [r.evaluators["right"] if what == "evaluators" else r.workflow for r in ready]
    assert steps[0].fingerprint != steps[1].fingerprint


def test_a_key_cannot_vary(folder):
    from limpet.config import load_matrix

    (folder / "eval.yml").write_text(
        ASKED % "prompt: hi" + "matrix: {workflow.key: ['${A}', '${B}'], models.a.key: [c]}\n"
    )
    with pytest.raises(ConfigError, match=r"cannot vary workflow\.key: it is named like a secret"):
        load_matrix("eval.yml")


def test_inputs_fill_the_parameters_of_an_evaluator(folder):
    (folder / "own_scores.py").write_text(
        "def overlap(context, answer):\n    return answer in context\n"
    )
    (folder / "eval.yml").write_text(
        DATA + "workflow: json:dumps\nevaluators:\n"
        "  inside:\n    python: own_scores:overlap\n"
        "    inputs: {context: 'It says {{question}}', answer: '{{output}}'}\n"
    )
    ready = load_config("eval.yml").prepare()
    evaluator = ready.evaluators["inside"]
    item = ready.dataset.load().items[0]
    scored = Scored("x", None, item.input, item)
    assert asyncio.run(evaluator.call(scored))["score"].value is True
    config = load_config("eval.yml", ["evaluators.inside.inputs.context='{{qestion}}'"])
    said = r"evaluators\.inside\.inputs\.context: .*'qestion'"
    with pytest.raises(ConfigError, match=said):
        config.prepare().dataset.load()


def test_a_prompt_that_shows_an_expected_answer_needs_a_column_of_them(folder):
    (folder / "eval.yml").write_text(JUDGED % "judge: grader, of: correctness")
    (folder / "app.py").write_text("def answer(question): return 'x'\n")
    config = load_config("eval.yml", ["workflow=json:dumps"])
    said = (
        r"^eval.yml:6: evaluators.right.of: shows \{\{expected\}\}, but there is no column for it"
    )
    with pytest.raises(ConfigError, match=said):
        config.prepare().dataset.load()
    (folder / "questions.jsonl").write_text('{"id": "1", "question": "x", "answer": "y"}\n')
    assert len(config.prepare().dataset.load()) == 1


def test_a_ready_prompt_without_its_column_says_how_to_fill_it(folder):
    (folder / "eval.yml").write_text(JUDGED % "judge: grader, of: faithfulness")
    config = load_config("eval.yml", ["workflow=json:dumps"])
    with pytest.raises(
        ConfigError, match=r"evaluators.right.of: there is no column 'context'"
    ) as e:
        config.prepare().dataset.load()
    assert e.value.hint == 'map it to a column: inputs: {context: "{{COLUMN}}"}'


def test_the_default_of_a_key_is_not_kept(folder):
    (folder / "eval.yml").write_text(ASKED % 'prompt: hi, key: "${NOT_SET:-sk-default-12345}"')
    config = load_config("eval.yml")
    assert "sk-default" not in json.dumps(config.public)
    assert "sk-default-12345" in config.prepare().workflow.secrets


def test_a_schema_that_cannot_be_held_to_is_said(folder):
    told, _ = refusal(ASKED % "prompt: hi, schema: {properties: {a: {type: text}}}")
    assert told.startswith("eval.yml:2: workflow.schema: schema.properties.a.type: must be one of")
    told, _ = refusal(ASKED % "prompt: hi, schema: {$ref: 'https://x.y/z'}")
    assert "schema.$ref: https://x.y/z leads to another document, which is never fetched" in told


def test_a_set_goes_below_a_model_in_short(folder):
    (folder / "eval.yml").write_text(DATA + "workflow: app:answer\nmodels: {a: own:ask}\n")
    config = load_config("eval.yml", ["models.a.python=other:ask"])
    assert config.public["models"]["a"] == {"python": "other:ask"}


@pytest.mark.parametrize(
    "prompt", ["{{question}}", "{{question}} please", "Answer: {{question}}", "[{{a}}]"]
)
def test_a_placeholder_without_quotes_is_said(prompt):
    text = DATA + f"workflow:\n  openai: http://x/v1\n  model: m\n  prompt: {prompt}\n"
    said, hint = refusal(text)
    assert said.startswith("eval.yml:5: ")
    assert hint == 'a string with {{…}} needs quotes: "{{column}}"'
