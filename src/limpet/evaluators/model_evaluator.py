"""What do all evaluators that ask a model share?

For each item they ask one or more questions, each to one model, and each reply is a ballot. A
ballot's identity is what the model is shown, not how its reply is scored: other values for the
labels, or two votes more, repeat no call.
"""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from limpet import arguments
from limpet.errors import wrong_type, wrong_value
from limpet.evaluators.judge_prompt import Prompt, Values
from limpet.evaluators.judge_replies import ask_for_reply
from limpet.evaluators.judge_votes import all_of, ballot
from limpet.evaluators.protocol import Evaluator, Scored, Scores, checked_name
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import CodeStep, code_of, described_by, stated_by
from limpet.json_values import NotPlainError, to_plain
from limpet.models import Model, Reply, as_model
from limpet.models.protocol import model_name
from limpet.secrets.known import secrets_under_names
from limpet.shapes import Output
from limpet.usage import total_usage

Ballot = Mapping[str, Any]
"""The content of one reply, with `model` and `usage`."""
_OURS = ("messages", "schema", "model", "stream")


@dataclass(frozen=True, slots=True)
class ModelQuestion:
    """One question to one model.

    Attributes:
        model: The model.
        vote: The number of the vote, from 1.
        values: What it is shown.
    """

    model: Model
    vote: int
    values: Values


@dataclass(frozen=True, slots=True)
class Asking:
    """How models are asked.

    Attributes:
        models: The models. Several are a jury.
        votes: How often each model is asked about an item.
        reasks: How often a model is asked again after a reply that cannot be used.
        params: Parameters for each call.
    """

    models: tuple[Model, ...]
    votes: int
    reasks: int
    params: Mapping[str, Any]


def asking(model: Any, votes: Any, reasks: Any, params: Any) -> Asking:
    """Return how models are asked, checked.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A number is too small, there is no model, or the same model appears twice.
    """
    return Asking(
        models_of(model),
        arguments.whole_number_from(1, votes=votes),
        arguments.whole_number_from(0, reasks=reasks),
        _checked_params(params),
    )


def models_of(model: Any) -> tuple[Model, ...]:
    """Return a model, or each of a list, as models.

    Raises:
        TypeError: One of them is not a model.
        ValueError: There is none, or the same model appears twice.
    """
    given = model if isinstance(model, list) else [model]
    if any(
        isinstance(juror, tuple) and not (juror and isinstance(juror[-1], str)) for juror in given
    ):
        raise wrong_type(
            "model", "a tuple is a client with a model's name; for a jury, give a list"
        )
    if not given:
        raise wrong_value("model", "must be a model, or a list of at least one", [])
    models = tuple(map(as_model, given))
    if len(models) > 1:
        digests = list(map(_model_digest, models))
        for number, juror in enumerate(models):
            if digests[number] in digests[:number]:
                raise wrong_value(
                    "model", f"{juror.name} appears twice; to ask it several times, use votes=2"
                )
    return models


def _checked_params(params: Any) -> Mapping[str, Any]:
    if params is None:
        return {}
    if not isinstance(params, Mapping) or not all(isinstance(name, str) for name in params):
        raise wrong_type("params", "must be a dict, for example {'temperature': 0}", params)
    for name in _OURS:
        if name in params:
            raise wrong_value("params", f"{name!r} cannot be set: the evaluator sets it itself")
    try:
        return dict(to_plain(params))
    except NotPlainError as error:
        raise wrong_type("params", f"must be plain data: {error}") from None


def _model_digest(model: Model) -> str:
    return digest(sorted(dict(model.fingerprint).items()))


class ModelEvaluator(CodeStep, Evaluator):
    """An evaluator that asks models for replies of a fixed shape.

    Args:
        name: Its name.
        asked: How models are asked.
        prompt: What they are shown.
        schema: The shape of a reply.

    Attributes:
        needs: The part of `reads` that every dataset must have.
        calls_each: How many calls a score takes at most, if no reply is invalid.
        kind: Which evaluator it is.
        version: Increased when it asks or scores differently.
    """

    kind: str
    version = 1

    def __init__(self, name: str, asked: Asking, prompt: Prompt, schema: Mapping[str, Any]) -> None:
        self.name = checked_name(name)
        self.endpoint = asked.models[0].endpoint
        self.reads: Collection[str] = prompt.reads
        self.needs = prompt.needs
        self.calls_each = len(asked.models) * asked.votes
        self._asked = asked
        self._prompt = prompt
        self._schema = schema
        self._digests: dict[int, str] | None = None

    def __repr__(self) -> str:
        models = ", ".join(model.name for model in self._asked.models)
        return f"<{self.kind} {self.name}: {models}>"

    @property
    def secrets(self) -> Iterable[str]:  # type: ignore[override]  # it is only read
        """The secrets of its models, and those in its parameters."""
        of_models = [secret for model in self._asked.models for secret in model.secrets]
        return [*of_models, *secrets_under_names(self._asked.params)]

    @property
    def model_names(self) -> list[str]:
        """The names of its models, as requested."""
        return [model_name(model) for model in self._asked.models]

    @property
    def reserves(self) -> bool:
        """Whether each of its requests reserves what it may use."""
        return all(model.reserves for model in self._asked.models)

    # ---- what it depends on ---------------------------------------------------------------------

    @property
    def code(self) -> Mapping[str, Any]:
        """The user's code in its models."""
        return {
            prefix + name: thing
            for prefix, model in self._prefixed
            for name, thing in code_of(model).items()
        }

    @property
    def stated(self) -> dict[str, str]:
        parts = {self.kind: digest(self.kind, self.version, self._prompt.rules)}
        parts |= {name: digest(value) for name, value in self._settings.items()}
        for prefix, model in self._prefixed:
            parts |= {prefix + name: part for name, part in stated_by(model).items()}
        return parts

    @property
    def described(self) -> dict[str, Any]:
        described = {self.kind: {"version": self.version, "rules": self._prompt.rules}}
        described |= self._settings
        for prefix, model in self._prefixed:
            described |= {prefix + name: value for name, value in described_by(model).items()}
        return described

    @cached_property
    def _settings(self) -> dict[str, Any]:
        return {
            "prompt": self._prompt.template,
            "examples": self._prompt.examples,
            "votes": self._asked.votes,
            "reasks": self._asked.reasks,
            "params": self._asked.params,
            **self._own_settings(),
        }

    @property
    def _prefixed(self) -> list[tuple[str, Model]]:
        models = self._asked.models
        if len(models) == 1:
            return [("model.", models[0])]
        return [(f"model {number}.", model) for number, model in enumerate(models, 1)]

    @abstractmethod
    def _own_settings(self) -> dict[str, Any]:
        """Return its own settings, by name."""

    # ---- asking ---------------------------------------------------------------------------------

    async def open(self) -> None:
        # Before the first call: a model that counts its calls would look edited afterwards.
        self._digests = self._digests_now()
        async with AsyncExitStack() as opened:  # closes those that are open if one fails
            for model in self._asked.models:
                await model.open()
                opened.push_async_callback(model.close)
            opened.pop_all()

    async def close(self) -> None:
        async with AsyncExitStack() as closing:  # closes the others if one fails
            for model in self._asked.models:
                closing.push_async_callback(model.close)

    async def call(self, scored: Scored) -> Output:
        values = self._prompt.values_of(scored)
        ballots = await all_of([self._cast(asked) for asked in self._questions(values, scored)])
        usage = total_usage(vote["usage"] for vote in ballots)
        return Output(self._scores(ballots), usage)

    def replies(self, scored: Scored) -> Sequence[Any]:
        """Return what each reply behind a score depends on.

        Raises:
            PermanentError: The item lacks a value.
        """
        questions = self._questions(self._prompt.values_of(scored), scored)
        return [self._identity(question) for question in questions]

    def _questions(self, values: Values, _scored: Scored) -> Sequence[ModelQuestion]:
        votes = range(1, self._asked.votes + 1)
        return [
            ModelQuestion(model, vote, values) for model in self._asked.models for vote in votes
        ]

    @property
    def _jurors(self) -> list[str]:
        """The model of each vote, in the order of the questions."""
        return [model.name for model in self._asked.models for _ in range(self._asked.votes)]

    async def _cast(self, asked: ModelQuestion) -> Ballot:
        async def ask() -> Ballot:
            return await ask_for_reply(
                asked.model,
                self._prompt.messages(asked.values, marked=getattr(asked.model, "caches", False)),
                self._schema,
                self._read,
                reasks=self._asked.reasks,
                params=self._asked.params,
            )

        return await ballot(self._identity(asked), ask)

    def _identity(self, asked: ModelQuestion) -> list[Any]:
        """Return what a reply depends on: not the key of the data, which is new in each call."""
        if self._digests is None:
            self._digests = self._digests_now()
        model = self._digests[id(asked.model)]
        return [model, self._question_digest, asked.values, "vote", asked.vote]

    def _digests_now(self) -> dict[int, str]:
        return {id(model): _model_digest(model) for model in self._asked.models}

    @cached_property
    def _question_digest(self) -> str:
        return digest(self._prompt.digest, self._schema, self._asked.params, self.version)

    @abstractmethod
    def _read(self, reply: Reply) -> dict[str, Any]:
        """Return the content of a reply; raise `InvalidReplyError` if it is unusable."""

    @abstractmethod
    def _scores(self, ballots: Sequence[Ballot]) -> Scores:
        """Return the scores from the ballots, in the order of the questions."""
