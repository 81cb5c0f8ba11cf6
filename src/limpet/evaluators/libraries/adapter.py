"""What do the adapters for other libraries' evaluators share?

Each has its own file, which says how that library's objects are recognised, called and read. The
rest is here: which of our fields fill theirs, what their scores depend on, which endpoint they
call, and that their failures are failures here.

An adapter imports nothing of its library: the user's object exists, so its modules are loaded.
"""

import dataclasses
from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar

from limpet.errors import InvalidReplyError, PermanentError
from limpet.evaluators.functions import as_scores
from limpet.evaluators.libraries.clients import Clients
from limpet.evaluators.libraries.shapes import endpoint_of, get, plain, valid_name, version_of
from limpet.evaluators.parameters import Inputs
from limpet.evaluators.protocol import Evaluator, Scored, Scores, checked_name
from limpet.fingerprints.keys import digest
from limpet.fingerprints.steps import CodeStep
from limpet.pacing.observation import observe
from limpet.pacing.signals import recognised
from limpet.secrets.known import maskable
from limpet.shapes import Output, Score
from limpet.text import one_line, text_of
from limpet.usage import plain_usage, total_usage, usage_of

USUAL_FIELDS: Mapping[str, str] = {
    **dict.fromkeys(("input", "inputs", "question", "query", "user_input"), "{{input}}"),
    **dict.fromkeys(
        ("output", "outputs", "response", "actual_output", "completion"), "{{output}}"
    ),
    **dict.fromkeys(
        (
            "expected", "expected_output", "reference", "reference_output", "reference_outputs",
            "ground_truth",
        ),
        "{{expected}}",
    ),
}  # fmt: skip
"""Other libraries' names for input, output and expected answer."""


class Adapter(CodeStep, Evaluator):
    """An evaluator of another library.

    A subclass has `library`, `package` and `bad_replies`, and implements `fits`, `own_name`,
    `wanted`, `parts` and `score`. `model`, `clients` and `code` have defaults.

    Args:
        theirs: The other library's object.
        name: Its name; None: its name in the library.
        inputs: Templates for its fields, by its names for them.

    Attributes:
        library: The library's name, for people.
        package: The name of its package, whose version is part of the fingerprint.
        bad_replies: The class names of its exceptions for an unusable reply of the model. A refusal
            or an outage wrapped in one of them keeps its meaning.
        theirs: The object.

    Raises:
        TypeError: A required field has no value, or `inputs` names an unknown one.
        ValueError: The name is not allowed.
    """

    library: ClassVar[str]
    package: ClassVar[str]
    bad_replies: Collection[str] = ()

    def __init__(
        self, theirs: Any, name: str | None = None, inputs: Mapping[str, Any] | None = None
    ) -> None:
        self.theirs = theirs
        self.name = checked_name(valid_name(self.own_name()) if name is None else name)
        given = Inputs({} if inputs is None else inputs, self.name).templates
        self._inputs = Inputs(self._filled(given), self.name)
        self.reads: Collection[str] = self._inputs.reads
        self._served = endpoint_of(*(self.model() or (None, None)))
        self.endpoint = self._served or self.name
        self._clients = Clients()

    def __repr__(self) -> str:
        return f"<evaluator {self.name}: {type(self.theirs).__name__} of {self.library}>"

    # ---- what each library says -----------------------------------------------------------------

    @classmethod
    @abstractmethod
    def fits(cls, thing: Any) -> bool:
        """Return whether an object has the shape of this library's evaluators.

        It runs no code of the object: see `has`.
        """

    @abstractmethod
    def own_name(self) -> str:
        """Return the object's name in its library."""

    @abstractmethod
    def wanted(self) -> "EvaluatorFields":
        """Return the fields it takes."""

    @abstractmethod
    def parts(self) -> Mapping[str, Any]:
        """Return what its scores depend on beside its code, as plain data: prompt, model, choices.

        Never a key. `plain` turns anything into plain data.
        """

    @abstractmethod
    async def score(self, values: Mapping[str, Any]) -> Any:
        """Call it once, and return the result in a form that `as_scores` takes.

        That is a number, a `Score`, a dict of them, or an `Output` of one of these with its usage.

        Args:
            values: Its fields, by its names.
        """

    def model(self) -> tuple[Any, Any] | None:
        """Return the address and the name of the model it asks; None if they cannot be read."""
        return None

    @property
    def code(self) -> Mapping[str, Any]:
        """The object's class: the user's code is fingerprinted, the library's by its version."""
        return {"": type(self.theirs)}

    def clients(self) -> Iterable[Any]:
        """Return the clients of its model's API, whose responses show usage and limits."""
        return ()

    @property
    def model_names(self) -> list[str] | None:
        """The name of the model it asks; None if it cannot be read."""
        _, name = self.model() or (None, None)
        return [name] if isinstance(name, str) else None

    # ---- the evaluator --------------------------------------------------------------------------

    @property
    def secrets(self) -> Collection[str]:  # type: ignore[override]  # it is only read
        """The keys of its clients: a server may repeat one in a message."""
        keys = [get(client, "api_key") for client in self.clients()]
        return maskable(key for key in keys if isinstance(key, str))

    @property
    def stated(self) -> Mapping[str, str]:
        return {part: digest(value) for part, value in self.described.items()}

    @property
    def described(self) -> Mapping[str, Any]:
        parts = {part: plain(value) for part, value in self.parts().items()}
        served = {} if self._served is None else {"endpoint": self._served}
        version = {self.package: version_of(self.package)}
        return {**parts, "inputs": plain(self._inputs.templates), **served, **version}

    async def open(self) -> None:
        self._clients = Clients(self.clients(), self.endpoint)
        await self._clients.open()

    async def close(self) -> None:
        await self._clients.close()

    async def call(self, scored: Scored) -> Scores | Output:
        values = self._inputs.values(scored)
        try:
            with self._clients.counting() as receipts:
                scores = as_scores(await self.score(values), self.name)
        except Exception as error:
            is_bad_reply = any(kind.__name__ in self.bad_replies for kind in type(error).__mro__)
            if not is_bad_reply or recognised(error) is not None:
                raise
            raise _invalid_reply(self.name, error) from error
        if not isinstance(scores, Output):
            scores = Output(scores)
        told = plain_usage(scores.usage)
        if receipts:  # which libraries do not always add up
            cost = {} if told is None or "cost" not in told else {"cost": told["cost"]}
            told = {**(total_usage(receipts) or {}), **cost}
        elif told is not None:
            observe(usage={"total_tokens": told["total_tokens"]})
        return dataclasses.replace(scores, usage=usage_of(told)[0])

    def _filled(self, given: dict[str, Any]) -> dict[str, Any]:
        """Return a template for each required field.

        Raises:
            TypeError: A field has none, or is unknown.
        """
        fields = self.wanted()
        known = (*fields.required, *fields.optional)
        names = ", ".join(known) or "any"
        unknown = [] if fields.any_other else [name for name in given if name not in known]
        if unknown:
            raise TypeError(
                f"{self.name}: inputs names {unknown[0]!r}, but {type(self.theirs).__name__} takes "
                f"{names}"
            )
        defaults = {**USUAL_FIELDS, **fields.defaults}
        usual = {name: defaults[name] for name in fields.required if name in defaults}
        filled = {**usual, **given}
        if missing := [name for name in fields.required if name not in filled]:
            example = ", ".join(f'"{name}": "{{{{your field}}}}"' for name in missing)
            raise TypeError(
                f"{self.name}: {type(self.theirs).__name__} takes {names}, but nothing fills "
                f"{' and '.join(missing)}: give inputs={{{example}}}, with fields of the dataset"
            )
        return filled


@dataclasses.dataclass(frozen=True, slots=True)
class EvaluatorFields:
    """The fields that an evaluator takes.

    Attributes:
        required: Those it needs.
        optional: Others; given only if `inputs` names them.
        any_other: Whether it takes others.
        defaults: Templates of required fields, used before `USUAL_FIELDS`.
    """

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()
    any_other: bool = False
    defaults: Mapping[str, str] = dataclasses.field(default_factory=dict)


def scores_by_name(scores: Iterable[tuple[str, Score]]) -> dict[str, Score]:
    """Return several scores by their names.

    Raises:
        PermanentError: Two have the same name: one of them would be lost.
    """
    by_name: dict[str, Score] = {}
    for name, score in scores:
        if name in by_name:
            raise PermanentError(f"two scores have the name {one_line(name)}")
        by_name[name] = score
    return by_name


def _invalid_reply(name: str, error: Exception) -> InvalidReplyError:
    what = f"{type(error).__name__}: {one_line(text_of(error))}"
    return InvalidReplyError(f"{name}: the model's reply cannot be used: {what}")
