"""DeepEval, pydantic-evals and ragas by the shapes of their objects; the slow tests use the real
packages."""

import asyncio
import os
import sys
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from limpet.errors import InvalidReplyError, PermanentError
from limpet.evaluators import Scored, as_evaluator
from limpet.shapes import Item

ITEM = Item("1", {"text": "q"}, "a", {"docs": "one text", "tags": ["t"]})
SCORED = Scored("4", "a", {"text": "q"}, ITEM)


def called(thing, scored=SCORED, **options):
    evaluator = as_evaluator(thing, **options)

    async def call():
        await evaluator.open()
        try:
            return await evaluator.call(scored)
        finally:
            await evaluator.close()

    return asyncio.run(call())


def score(thing, **options):
    return called(thing, **options).value["score"]


def loaded(monkeypatch, name, **contents):
    module = ModuleType(name)
    vars(module).update(contents)
    monkeypatch.setitem(sys.modules, name, module)


# ---- DeepEval -----------------------------------------------------------------------------------


class Params(Enum):
    INPUT = "input"
    ACTUAL_OUTPUT = "actual_output"
    RETRIEVAL_CONTEXT = "retrieval_context"


class Case(SimpleNamespace):
    model_fields = dict.fromkeys(
        ("input", "actual_output", "expected_output", "context", "retrieval_context")
    )

    def __init__(self, **values):
        if not isinstance(values.get("actual_output", ""), str):
            raise ValueError("actual_output: Input should be a valid string")  # noqa: TRY004
        super().__init__(**values)


class Conversational:
    pass


class Metric:
    _required_params = (Params.INPUT, Params.ACTUAL_OUTPUT, Params.RETRIEVAL_CONTEXT)
    score = reason = error = None
    requires_trace = False

    def __init__(self, model=None, threshold=0.5, strict_mode=False, fails=None):
        self.model, self.threshold, self.strict_mode = model, threshold, strict_mode
        self.fails = fails
        self.evaluation_model = "gpt"

    @property
    def __name__(self):
        return "Faithfulness"

    async def a_measure(self, case, _show_indicator=True):
        assert not _show_indicator
        assert os.environ["DEEPEVAL_RETRY_MAX_ATTEMPTS"] == "1"
        self.input_tokens, self.output_tokens, self.evaluation_cost = 10, 5, 0.25
        self.case = case
        if isinstance(self.fails, Exception):
            raise self.fails
        self.error = self.fails
        self.score, self.reason = 0.75, "because"
        return self.score


class DeepEvalError(Exception):
    pass


class MissingTestCaseParamsError(DeepEvalError):
    pass


@pytest.fixture
def deepeval(monkeypatch):
    loaded(monkeypatch, "deepeval.test_case", LLMTestCase=Case)
    loaded(monkeypatch, "deepeval.metrics", BaseConversationalMetric=Conversational)
    monkeypatch.delenv("DEEPEVAL_RETRY_MAX_ATTEMPTS", raising=False)


DOCS = {"retrieval_context": "{{docs}}"}


def test_deepeval_gives_score_reason_and_usage(deepeval):
    metric = Metric()
    output = called(metric, inputs=DOCS)
    assert (output.value["score"].value, output.value["score"].explanation) == (0.75, "because")
    assert (output.usage.prompt_tokens, output.usage.cost) == (10, 0.25)
    assert metric.score is None, "each call has a copy"
    assert "DEEPEVAL_RETRY_MAX_ATTEMPTS" not in os.environ


def test_deepeval_gets_strings_and_lists(deepeval):
    seen = []

    class Seeing(Metric):
        async def a_measure(self, case, _show_indicator=True):
            seen.append(case)
            return 1

    called(Seeing(), inputs=DOCS)
    assert vars(seen[0]) == {
        "input": '{"text":"q"}', "actual_output": "4", "retrieval_context": ["one text"],
    }  # fmt: skip


def test_deepeval_wants_its_fields(deepeval):
    with pytest.raises(TypeError, match="takes input, actual_output, retrieval_context"):
        as_evaluator(Metric())


@pytest.mark.parametrize(
    ("fails", "raised"),
    [
        (DeepEvalError("invalid JSON"), InvalidReplyError),
        (ValueError("invalid JSON"), InvalidReplyError),
        (MissingTestCaseParamsError("actual_output cannot be empty"), PermanentError),
        ("it failed", PermanentError),
    ],
)
def test_deepevals_failures_are_failures(fails, raised, deepeval):
    with pytest.raises(raised) as error:
        called(Metric(fails=fails), inputs=DOCS)
    assert type(error.value) is raised


def test_a_test_case_that_does_not_fit_is_a_failure(deepeval):
    class Picky(Case):
        def __init__(self, **values):
            raise ValueError("not so")

    sys.modules["deepeval.test_case"].LLMTestCase = Picky
    with pytest.raises(PermanentError, match="does not fit: not so"):
        called(Metric(), inputs=DOCS)


def test_a_threshold_and_an_earlier_measurement_do_not_count(deepeval):
    def fingerprint(**options):
        return as_evaluator(Metric(**options), inputs=DOCS).fingerprint

    measured = Metric()
    measured.score, measured.verdicts = 0.5, ["yes"]
    assert fingerprint() == fingerprint(threshold=0.9)
    assert fingerprint() == as_evaluator(measured, inputs=DOCS).fingerprint
    assert fingerprint() != fingerprint(strict_mode=True)


def test_metrics_that_score_something_else_are_refused(deepeval):
    class Chat(Conversational, Metric):
        pass

    with pytest.raises(TypeError, match="scores conversations"):
        as_evaluator(Chat(), inputs=DOCS)


def test_g_eval_without_steps_is_refused(deepeval):
    class GEval(Metric):
        def __init__(self, evaluation_steps):
            super().__init__()
            self.criteria, self.evaluation_steps = "is it right?", evaluation_steps
            self.name, self.evaluation_params = "Right", [Params.ACTUAL_OUTPUT]

    with pytest.raises(TypeError, match=r"no evaluation_steps.*give evaluation_steps=\[…\]"):
        as_evaluator(GEval(None))
    one, two = as_evaluator(GEval(["look"])), as_evaluator(GEval(["look twice"]))
    assert one.name == "Right"
    assert one.fingerprint != two.fingerprint


def test_without_deepeval_there_is_no_metric_of_it():
    with pytest.raises(TypeError):
        as_evaluator(Metric(), inputs=DOCS)


def test_the_key_of_deepevals_model_is_a_secret(deepeval):
    key = SimpleNamespace(get_secret_value=lambda: "sk-of-deepeval-1234")
    model = SimpleNamespace(api_key=key, base_url="http://localhost:1")
    evaluator = as_evaluator(Metric(model), inputs=DOCS)
    assert "sk-of-deepeval-1234" in evaluator.secrets
    assert "sk-of-deepeval-1234" not in str(evaluator.described)


# ---- pydantic-evals -----------------------------------------------------------------------------


@dataclass
class Reason:
    value: Any
    reason: str | None = None


@dataclass
class Custom:
    returned: Any = True
    reads: tuple = ("output",)
    evaluation_name: str = "Custom"

    def as_spec(self):
        return {}

    def get_default_evaluation_name(self):
        return self.evaluation_name

    def get_evaluator_version(self):
        return None

    async def evaluate_async(self, ctx):
        self.seen = [getattr(ctx, name) for name in self.reads]
        return self.returned


class Judge(Custom):
    pass


@dataclass
class LLMJudge(Custom):
    rubric: str = "right?"
    include_input: bool = False
    include_expected_output: bool = False
    model: Any = None
    model_settings: dict | None = None

    async def evaluate_async(self, ctx):
        assert self.model_settings == {"temperature": 0, "max_retries": 0}
        return {"Custom": Reason(self.returned, "because")}


def test_pydantic_evals_gives_what_it_returns():
    assert score(Custom(Reason(0.5, "so"))).explanation == "so"
    assert score(Custom(returned=True)).value is True
    assert score(Custom("good")).label == "good"
    several = called(Custom({"a": 1, "b": Reason("bad", "so")})).value
    assert (several["a"].value, several["b"].label) == (1, "bad")


def test_pydantic_evals_sees_the_item_and_nothing_that_is_made_up():
    custom = Custom(reads=("inputs", "output", "expected_output"))
    called(custom)
    assert custom.seen == [{"text": "q"}, "4", "a"]
    for name in ("duration", "metadata", "span_tree", "metrics", "attributes"):
        with pytest.raises(PermanentError, match=f"reads ctx.{name}"):
            called(Custom(reads=(name,)))
    tagged = Custom(reads=("metadata",))
    called(tagged, inputs={"metadata": {"tags": "{{tags}}"}})
    assert tagged.seen == [{"tags": ["t"]}]


def test_a_judge_of_pydantic_evals_reads_what_it_shows_and_does_not_retry():
    judge = LLMJudge(model_settings={"temperature": 0})
    assert score(judge).explanation == "because"
    assert judge.model_settings == {"temperature": 0}
    assert as_evaluator(judge).reads == {"output"}
    assert as_evaluator(LLMJudge(include_input=True)).reads == {"output", "input"}
    assert as_evaluator(LLMJudge(model="openai:gpt-4.1")).endpoint.endswith(":443 gpt-4.1")
    assert as_evaluator(LLMJudge(rubric="wrong?")).fingerprint != as_evaluator(judge).fingerprint


def test_the_key_of_pydantic_ais_model_is_a_secret():
    model = SimpleNamespace(client=SimpleNamespace(api_key="sk-of-pydantic-1234"))
    assert "sk-of-pydantic-1234" in as_evaluator(LLMJudge(model=model)).secrets


def test_an_empty_result_of_pydantic_evals_is_a_failure():
    with pytest.raises(PermanentError, match="empty dict"):
        called(Custom({}))


# ---- ragas --------------------------------------------------------------------------------------


@dataclass
class Faithful:
    llm: Any = None
    name: str = "faithfulness"
    allowed_values: tuple = (0.0, 1.0)
    returned: Any = 0.5
    statement_prompt: Any = field(
        default_factory=lambda: SimpleNamespace(instruction="split", examples=[])
    )

    async def ascore(self, user_input: str, response: str, retrieved_contexts: list):
        self.seen = user_input, response, retrieved_contexts
        if isinstance(self.returned, Exception):
            raise self.returned
        return SimpleNamespace(value=self.returned, reason="because")


class Prompted:
    name, allowed_values = "quality", ["good", "bad"]

    def get_variables(self):
        return ["response", "tone"]

    async def ascore(self, *, llm, **values):
        return SimpleNamespace(value=llm.answer, reason=str(values))


CONTEXTS = {"retrieved_contexts": "{{docs}}"}


def test_ragas_gives_score_and_reason():
    given = score(Faithful(), inputs=CONTEXTS)
    assert (given.value, given.explanation) == (0.5, "because")


def test_ragas_without_a_number_has_no_score():
    with pytest.raises(InvalidReplyError, match="ragas has no score"):
        called(Faithful(returned=float("nan")), inputs=CONTEXTS)


def test_an_input_that_ragas_rejects_is_a_failure_that_is_not_retried():
    with pytest.raises(PermanentError, match="response is missing"):
        called(Faithful(returned=ValueError("response is missing")), inputs=CONTEXTS)


def test_ragas_retries_are_off_while_it_is_open():
    client = SimpleNamespace(max_retries=2, base_url="http://localhost:1/v1")
    client.api_key = "sk-of-ragas-1234"
    llm = SimpleNamespace(client=SimpleNamespace(client=client), model="m", model_args={"top_p": 1})
    assert "sk-of-ragas-1234" in as_evaluator(Faithful(llm), inputs=CONTEXTS).secrets
    seen = []

    class Seeing(Faithful):
        async def ascore(self, user_input: str, response: str, retrieved_contexts: list):
            seen.append((client.max_retries, llm.model_args["max_retries"]))
            return SimpleNamespace(value=1, reason=None)

    metric = Seeing(llm)
    assert as_evaluator(metric, inputs=CONTEXTS).endpoint == "http://localhost:1 m"
    called(metric, inputs=CONTEXTS)
    assert seen == [(0, 0)]
    assert (client.max_retries, llm.model_args) == (2, {"top_p": 1})


def test_a_prompt_of_ragas_takes_its_model_as_an_input():
    with pytest.raises(TypeError, match=r'takes its model at each call: give inputs=\{"llm": llm'):
        as_evaluator(Prompted(), inputs={"tone": "kind"})
    llm = SimpleNamespace(answer="good", model="m")
    assert score(Prompted(), inputs={"tone": "kind", "llm": llm}).label == "good"
    with pytest.raises(TypeError, match="takes response, tone, but nothing fills tone"):
        as_evaluator(Prompted(), inputs={"llm": llm})


def test_the_prompts_of_ragas_count():
    def fingerprint(instruction="split", **options):
        metric = Faithful(**options)
        metric.statement_prompt.instruction = instruction
        return as_evaluator(metric, inputs=CONTEXTS).fingerprint

    assert fingerprint() == fingerprint() != fingerprint("split it")
    assert fingerprint() != fingerprint(llm=SimpleNamespace(model="other"))
