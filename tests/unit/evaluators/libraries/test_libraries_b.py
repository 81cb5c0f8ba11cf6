"""openevals, autoevals, Inspect and the toolkit by their shapes, without their packages."""

import asyncio
import sys
from functools import partial
from types import ModuleType, SimpleNamespace

import pytest

from limpet.errors import InvalidReplyError, PermanentError, RateLimitError
from limpet.evaluators import Scored, as_evaluator
from limpet.evaluators.libraries.nat import score_of_item
from limpet.evaluators.libraries.overrides import replaced, variables
from limpet.shapes import Item, Output


def scores_of(thing, output="yes", expected="yes", inputs=None, **row):
    """Call an evaluator once, and return its scores."""
    evaluator = as_evaluator(thing, inputs=inputs)
    item = Item("1", "why?", expected, {"input": "why?", **row})

    async def call():
        await evaluator.open()
        try:
            return await evaluator.call(Scored(output, expected, "why?", item))
        finally:
            await evaluator.close()

    returned = asyncio.run(call())
    return returned.value if isinstance(returned, Output) else returned


class Client:
    """As a client of the openai package."""

    max_retries = 2
    base_url = "http://user:secret@localhost:8000/v1"
    chat = None

    def with_options(self, max_retries):
        copy = type(self)()
        copy.max_retries = max_retries
        return copy


# ---- openevals ---------------------------------------------------------------------------------


def judging(answer, *, prompt="{inputs} {outputs} {reference_outputs}", model="openai:m", **more):
    """Return a function with the closures of `create_async_llm_as_judge`."""
    settings = {"choices": None, "continuous": False, "schema": None, **more}
    choices, continuous, schema = settings["choices"], settings["continuous"], settings["schema"]
    judge, feedback_key = Client(), "score"

    async def scorer(**given):
        nonlocal model
        model = model.removeprefix("openai:")
        assert judge.max_retries == 0
        _ = choices, continuous, schema, prompt
        return answer(given)

    async def _wrapped_evaluator(*, inputs=None, outputs=None, reference_outputs=None, **kwargs):
        named = {"inputs": inputs, "outputs": outputs, "reference_outputs": reference_outputs}
        score = await scorer(**named, **kwargs)
        return {"key": feedback_key, "score": score, "comment": "it fits", "metadata": None}

    scorer.__module__ = _wrapped_evaluator.__module__ = "openevals.llm"
    return _wrapped_evaluator


def test_a_function_of_openevals_scores_and_gets_what_its_prompt_names():
    given = []
    scores = scores_of(judging(lambda values: given.append(values) or True))
    assert (scores["score"].value, scores["score"].explanation) == (True, "it fits")
    assert given == [{"inputs": "why?", "outputs": "yes", "reference_outputs": "yes"}]


def test_its_name_its_endpoint_and_what_it_reads():
    evaluator = as_evaluator(judging(lambda values: True, prompt="{outputs}"))
    assert evaluator.name == "llm_as_judge"
    assert evaluator.endpoint == "http://localhost:8000 m"
    assert evaluator.reads == {"output"}


@pytest.mark.parametrize(
    ("answer", "settings"),
    [
        (7, {}),
        (1, {}),
        ("yes", {}),
        (None, {}),
        (0.7, {"choices": [0.0, 1.0]}),
        (True, {"choices": [0.0, 1.0]}),
        (7, {"continuous": True}),
        (float("nan"), {"continuous": True}),
    ],
)
def test_a_score_that_openevals_did_not_ask_for_is_an_invalid_reply(answer, settings):
    with pytest.raises(InvalidReplyError, match="llm_as_judge: the judge gave the score"):
        scores_of(judging(lambda values: answer, **settings))


def test_two_scores_of_one_name_are_a_failure():
    async def both(*, outputs):
        return [{"key": "fits", "score": 1.0}, {"key": outputs, "score": 0.0}]

    assert scores_of(both, "short").keys() == {"fits", "short"}
    with pytest.raises(PermanentError, match="two scores have the name fits"):
        scores_of(both, "fits")


def test_a_reply_that_openevals_cannot_read_is_an_invalid_reply():
    def unreadable(values):
        raise KeyError("score")

    with pytest.raises(InvalidReplyError, match="KeyError"):
        scores_of(judging(unreadable))


def test_a_missing_expected_answer_is_said_before_the_judge_is_asked():
    with pytest.raises(PermanentError, match="names reference_outputs, but the item has none"):
        scores_of(judging(pytest.fail), expected=None)


def test_the_prompt_the_model_and_the_choices_count_and_a_call_changes_nothing():
    first = judging(lambda values: 1.0, choices=[0.0, 1.0])
    before = dict(as_evaluator(first).stated)
    scores_of(first)
    assert as_evaluator(first).stated == before
    for changed in ({"prompt": "{outputs}"}, {"model": "n"}, {"choices": [1.0]}):
        other = judging(lambda values: 1.0, **{"choices": [0.0, 1.0], **changed})
        assert as_evaluator(other).stated != before
    assert "secret" not in str(as_evaluator(first).described)


def test_other_fields_of_the_prompt_come_from_inputs():
    given = []
    function = judging(lambda values: given.append(values) or True, prompt="{outputs} {context}")
    with pytest.raises(TypeError, match="context"):
        as_evaluator(function)
    scores_of(function, inputs={"context": "{{documents}}"}, documents="a page")
    assert given[0]["context"] == "a page"


def test_a_sync_function_written_for_langsmith_is_taken_and_its_code_counts():
    def same(*, outputs, reference_outputs):
        return {"key": "same", "score": outputs == reference_outputs, "comment": "compared"}

    assert scores_of(same)["score"].value is True
    assert "" in as_evaluator(same).code


@pytest.mark.parametrize(("key", "masked"), [("sk-secret-key", ["sk-secret-key"]), ("none", [])])
def test_the_key_of_its_client_is_masked_unless_it_is_a_word(key, masked, monkeypatch):
    monkeypatch.setattr(Client, "api_key", key, raising=False)
    assert list(as_evaluator(judging(lambda values: True)).secrets) == masked
    assert list(as_evaluator(Classifier(len)).secrets) == masked


# ---- autoevals ---------------------------------------------------------------------------------


class LLMClient:
    def __init__(self, openai, is_async=False):
        self.openai, self.is_async = openai, is_async
        self.RateLimitError = ValueError


class AsyncClient(Client):
    pass


class Classifier:
    """As autoevals' `LLMClassifier`."""

    def __init__(self, reply, prompt="Is {{output}} a good answer to {{input}}?", client=None):
        self.name = "quality"
        self.messages = [{"role": "user", "content": prompt}]
        self.model = "m"
        self.choice_scores = {"good": 1, "bad": 0}
        self.render_args = {"__choices": ["good", "bad"]}
        self.extra_args = {"api_key": "sk-secret", "temperature": 0}
        self.client = client or AsyncClient()
        self._reply = reply

    def _name(self):
        return self.name

    def _run_eval_sync(self, output, expected=None, **kwargs):
        raise AssertionError("it has an async client")

    async def _run_eval_async(self, output, expected=None, **kwargs):
        assert self.client.openai.max_retries == 0
        assert not issubclass(ValueError, self.client.RateLimitError)
        choice = self._reply({"output": output, **kwargs})
        metadata = {"choice": choice, "rationale": "it fits"}
        return SimpleNamespace(name="quality", score=self.choice_scores[choice], metadata=metadata)

    async def eval_async(self, output, expected=None, **kwargs):
        return await self._run_eval_async(output, expected, **kwargs)

    def eval(self, output, expected=None, **kwargs):
        return self._run_eval_sync(output, expected, **kwargs)


@pytest.fixture(autouse=True)
def autoevals(monkeypatch):
    module = ModuleType("autoevals.oai")
    module.LLMClient = LLMClient
    monkeypatch.setitem(sys.modules, "autoevals.oai", module)


def test_a_scorer_of_autoevals_scores_and_asks_once():
    given = []
    theirs = Classifier(lambda values: given.append(values) or "good")
    score = scores_of(theirs)["score"]
    assert (score.value, score.label, score.explanation) == (1, "good", "it fits")
    assert given == [{"output": "yes", "input": "why?"}]
    assert isinstance(theirs.client, AsyncClient), "the user's scorer stays unchanged"
    assert theirs.client.max_retries == 2


def test_a_choice_that_does_not_exist_is_an_invalid_reply():
    with pytest.raises(InvalidReplyError, match="excellent"):
        scores_of(Classifier(lambda values: "excellent"))


def test_the_prompt_of_autoevals_counts_and_its_key_does_not():
    first = as_evaluator(Classifier(len))
    assert first.stated == as_evaluator(Classifier(len)).stated
    assert first.stated != as_evaluator(Classifier(len, "{{output}}")).stated
    assert "secret" not in str(first.described)
    assert first.endpoint == "http://localhost:8000 m"


def test_a_prompt_of_autoevals_that_names_an_expected_answer_needs_one():
    theirs = Classifier(pytest.fail, "Is {{output}} the same as {{expected}}?")
    with pytest.raises(PermanentError, match="names expected, but the item has none"):
        scores_of(theirs, expected=None)


def test_a_field_that_autoevals_prompt_names_must_be_filled():
    theirs = Classifier(lambda values: "good", "Does {{output}} meet {{criteria}}?")
    with pytest.raises(TypeError, match="criteria"):
        as_evaluator(theirs)
    assert scores_of(theirs, inputs={"criteria": "be short"})["score"].value == 1


# ---- Inspect -----------------------------------------------------------------------------------


def test_a_function_that_makes_scorers_is_not_a_scorer():
    def model_graded_qa():
        raise AssertionError

    model_graded_qa.__registry_info__ = SimpleNamespace(type="scorer", name="a/model_graded_qa")
    with pytest.raises(TypeError, match=r"call it, model_graded_qa\(…\)"):
        as_evaluator(model_graded_qa)


def test_the_parameters_of_a_scorer_count():
    def scorer(**params):
        async def score(state, target):
            raise AssertionError

        score.__module__ = "inspect_ai.scorer._model"
        score.__registry_info__ = SimpleNamespace(type="scorer", name="inspect_ai/graded")
        score.__registry_params__ = params
        return as_evaluator(score)

    assert scorer().name == "graded"
    assert scorer(template="a").stated == scorer(template="a").stated
    assert scorer(template="a").stated != scorer(template="b").stated


@pytest.mark.parametrize(
    ("score", "error"),
    [
        ({"value": float("nan"), "reason": "grader_failed", "explanation": "?"}, InvalidReplyError),
        ({"value": float("nan"), "reason": None, "explanation": None}, PermanentError),
        (None, PermanentError),
    ],
)
def test_what_inspect_could_not_score_is_a_failure(score, error):
    async def graded(state, target):
        raise AssertionError

    graded.__registry_info__ = SimpleNamespace(type="scorer", name="graded")
    graded.__registry_params__ = {}
    with pytest.raises(error):
        as_evaluator(graded)._read(score and SimpleNamespace(**score), "yes")


# ---- the NeMo Agent Toolkit ---------------------------------------------------------------------


class Toolkit:
    """As the toolkit's `BaseEvaluator`."""

    def __init__(self, returned, judge_llm_prompt="Is it right?"):
        self.semaphore = asyncio.Semaphore(1)
        self.judge_llm_prompt = judge_llm_prompt
        self.llm_retry_control_params = None
        self._returned = returned
        self.items = []

    async def evaluate_item(self, item):
        assert self.llm_retry_control_params["stop_after_attempt"] == 1
        self.items.append(item)
        fields = {"id": item.id, "error": None, **self._returned}
        return SimpleNamespace(**fields)


@pytest.fixture(autouse=True)
def nat(monkeypatch):
    for name in ("nat", "nat.data_models", "nat.data_models.evaluator"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    sys.modules["nat.data_models.evaluator"].EvalInputItem = SimpleNamespace


def test_an_evaluator_of_the_toolkit_scores_one_item_at_a_time():
    theirs = Toolkit({"score": 0.5, "reasoning": "half of it"})
    score = scores_of(theirs, expected=None, answer="field")["score"]
    assert (score.value, score.explanation) == (0.5, "half of it")
    (item,) = theirs.items
    assert (item.id, item.input_obj, item.output_obj) == ("1", "why?", "yes")
    assert item.expected_output_obj == ""
    assert item.full_dataset_entry == {"input": "why?", "answer": "field"}
    assert theirs.llm_retry_control_params is None, "the user's evaluator stays unchanged"


def test_the_toolkits_prompt_counts():
    first, second = (as_evaluator(Toolkit({}, prompt)) for prompt in ("a", "b"))
    assert first.stated == as_evaluator(Toolkit({}, "a")).stated
    assert first.stated != second.stated
    own = Toolkit({}, "a")
    own.strictness = 3
    assert as_evaluator(own).stated != first.stated, "a setting of the user's own class"


FAILED = {"error": "Evaluator error: Error code: 429 - too many"}
UNREADABLE = {"reasoning": "Error in evaluator from parsing judge LLM response."}


@pytest.mark.parametrize(
    ("reasoning", "error"), [(FAILED, RateLimitError), (UNREADABLE, InvalidReplyError)]
)
def test_the_toolkits_zero_for_a_failure_is_a_failure(reasoning, error):
    with pytest.raises(error):
        scores_of(Toolkit({"score": 0.0, "reasoning": reasoning}))
    with pytest.raises(error):
        score_of_item(SimpleNamespace(score=0.0, reasoning=reasoning, error=None), "right")


def test_a_zero_with_a_reason_is_a_score():
    assert scores_of(Toolkit({"score": 0.0, "reasoning": "wrong"}))["score"].value == 0.0


# ---- closures ----------------------------------------------------------------------------------


def test_a_copied_function_holds_something_else_and_shares_the_rest():
    count, model = 0, "slow"

    def ask():
        nonlocal count
        count += 1
        return model

    copy = replaced(ask, lambda name, value: "fast" if value == "slow" else value, "nowhere")
    assert (ask(), copy(), count) == ("slow", "fast", 2)
    assert replaced(ask, lambda name, value: value, "nowhere") is ask
    assert dict(variables(partial(ask, 1, key=2))) == {"argument 0": 1, "key": 2}
