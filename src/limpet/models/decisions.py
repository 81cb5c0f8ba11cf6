"""How is a decision endpoint called, which returns probabilities instead of text?

OpenAI's is `POST …/decisions`; `transformers serve`, llama.cpp and Ollama have `POST …/systemone`.
Each property of the schema with a closed set of values becomes a question, also in nested objects.
A decision contains no other text, so free-text properties, like a reason, are missing from the
reply.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from limpet.errors import SetupError
from limpet.models.chat import Response
from limpet.models.failures import PathMissingError
from limpet.models.protocol import Message, Reply
from limpet.models.schema import check_schema
from limpet.models.schema_parts import Schema
from limpet.models.server import ModelServer
from limpet.pacing.registry import endpoint
from limpet.usage import reserving

_OPENAI, _SYSTEM_ONE = "/decisions", "/systemone"
_PARTS = {"text": "input_text", "image_url": "input_image"}
_SUM_TOLERANCE = 0.01
_working_path: dict[str, str] = {}
"""The path that worked for each endpoint, for the rest of the process."""


class ClosedQuestion(NamedTuple):
    """A question with a closed set of answers.

    Attributes:
        path: The property of the schema, with its parent objects.
        name: The same in one word.
        instructions: The question.
        values: The value of each option.
    """

    path: tuple[str, ...]
    name: str
    instructions: str
    values: Mapping[str, Any]


async def decide(
    server: ModelServer,
    pace: str,
    constant: Mapping[str, Any],
    messages: Sequence[Message],
    schema: Schema | None,
) -> Reply:
    """Return the most probable option of each question in the schema.

    Args:
        server: The server.
        pace: The endpoint that paces each request.
        constant: The model and other parameters of the request.
        messages: The conversation to decide about.
        schema: An object; each property with an `enum`, or of type boolean, is a question.

    Raises:
        InvalidReplyError: A question has no answer, or one that is not an option.
        SetupError: The schema has no question, or the server no decision endpoint.
    """
    questions = questions_in(schema)
    known = _working_path.get(pace)
    missing: list[SetupError] = []
    for path in (_OPENAI, _SYSTEM_ONE) if known is None else (known,):
        form = _for_openai if path == _OPENAI else _for_system_one
        request = {**constant, **form(messages, questions)}
        async with endpoint(pace), reserving():
            try:
                response = await server.post(server.url(path), request)
            except PathMissingError as error:
                missing.append(error)
                continue
            _working_path[pace] = path
            return _reply(server, response, questions)
    raise SetupError(
        f"{server.where}: no decision endpoint: neither {_OPENAI} nor {_SYSTEM_ONE}",
        hint='use another form of reply: reply="auto"',
    ) from missing[0]


def questions_in(schema: Schema | None) -> list[ClosedQuestion]:
    """Return the questions of a schema.

    Raises:
        SetupError: It has none.
    """
    questions: list[ClosedQuestion] = []
    if schema is not None:
        check_schema(schema)
        questions = list(_questions((), schema))
    if len({question.name for question in questions}) < len(questions):
        raise SetupError('reply="decision": two questions have the same name')
    if not questions:
        raise SetupError(
            'reply="decision": there is nothing to decide',
            hint="a decision endpoint chooses from a closed set, as judge and rating do",
        )
    return questions


def _questions(path: tuple[str, ...], part: Schema) -> Iterator[ClosedQuestion]:
    for name, inner in part.get("properties", {}).items():
        if isinstance(inner, Mapping):
            yield from _questions((*path, name), inner)
    options = [True, False] if part.get("type") == "boolean" else part.get("enum", ())
    if path and options:
        name = ".".join(path)
        values = {_option(value): value for value in options}
        if len(values) < len(options):
            raise SetupError(f'reply="decision": two options of {name} have the same name')
        yield ClosedQuestion(
            path, name, part.get("description") or f"Choose the {name} that fits.", values
        )


def _option(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


# ---- the requests -------------------------------------------------------------------------------


def _for_openai(messages: Sequence[Message], questions: Sequence[ClosedQuestion]) -> dict[str, Any]:
    return {
        "input": [
            {"role": message.get("role"), "content": _content(message.get("content"))}
            for message in messages
        ],
        "questions": [
            {
                "type": "choice",
                "name": question.name,
                "instructions": question.instructions,
                "choices": [{"value": option} for option in question.values],
            }
            for question in questions
        ],
    }


def _content(content: Any) -> Any:
    """Return a message's content with this endpoint's names of parts."""
    if not isinstance(content, list):
        return content
    parts = []
    for part in content:
        kind = part.get("type") if isinstance(part, Mapping) else None
        if kind not in _PARTS:
            raise SetupError(f"a decision endpoint takes texts and images only, not {kind!r}")
        value = part.get(kind)
        value = value.get("url") if isinstance(value, Mapping) else value
        parts.append({"type": _PARTS[kind], kind: value})
    return parts


def _for_system_one(
    messages: Sequence[Message], questions: Sequence[ClosedQuestion]
) -> dict[str, Any]:
    contents = [message.get("content") for message in messages]
    if not all(isinstance(content, str) for content in contents):
        raise SetupError(f"{_SYSTEM_ONE} takes messages of text only")
    return {
        "state": "\n\n".join(map(str, contents)),
        "questions": {
            question.name: {
                "type": "choice",
                "instructions": question.instructions,
                "criteria": dict.fromkeys(question.values),
            }
            for question in questions
        },
    }


# ---- the answers --------------------------------------------------------------------------------


def _reply(server: ModelServer, response: Response, questions: Sequence[ClosedQuestion]) -> Reply:
    body, reading = response.body, server.reading
    usage = reading.usage(body)
    if (error := reading.error_in(body, response.headers)) is not None:
        raise error
    answers = _answers_by_name(body)
    parsed: dict[str, Any] = {}
    probabilities: dict[str, float] = {}
    for question in questions:
        prefix = "" if len(questions) == 1 else f"{question.name}."
        try:
            chosen, shares = _decision(answers.get(question.name), question)
        except ValueError as why:
            shown = server.show(answers.get(question.name))
            message = f"the decision on {question.name} cannot be used: {why}: {shown}"
            raise reading.invalid(message, shown, usage) from None
        holder = parsed
        for name in question.path[:-1]:
            holder = holder.setdefault(name, {})
        holder[question.path[-1]] = question.values[chosen]
        probabilities |= {prefix + option: share for option, share in shares.items()}
    model = body.get("model")
    return Reply(
        "",
        parsed,
        usage,
        None,
        model if isinstance(model, str) else None,
        response.headers,
        probabilities,
    )


def _answers_by_name(body: Any) -> Mapping[str, Any]:
    answers = body.get("answers") if isinstance(body, Mapping) else None
    if isinstance(answers, Mapping):  # /systemone
        return answers
    entries = answers if isinstance(answers, list) else []
    mappings = [entry for entry in entries if isinstance(entry, Mapping)]
    named = [entry for entry in mappings if isinstance(entry.get("name"), str)]
    times = Counter(entry["name"] for entry in named)
    return {entry["name"]: entry for entry in named if times[entry["name"]] == 1}


def _decision(answer: Any, question: ClosedQuestion) -> tuple[str, dict[str, float]]:
    """Return the chosen option, and the probability of each.

    Raises:
        ValueError: The answer lacks them; the message says why.
    """
    answer = answer if isinstance(answer, Mapping) else {}
    if answer.get("type") == "refusal":
        raise ValueError("the model refuses to answer")
    given = answer.get("probabilities")
    if isinstance(given, list):
        entries = [entry for entry in given if isinstance(entry, Mapping)]
        given = {_option(entry.get("value")): entry.get("probability") for entry in entries}
    if not isinstance(given, Mapping) or given.keys() != question.values.keys():
        raise ValueError("it does not have one probability for each option")
    if not all(type(share) in (int, float) and 0 <= share <= 1 for share in given.values()):
        raise ValueError("a probability is not a number from 0 to 1")
    if not math.isclose(sum(given.values()), 1, abs_tol=_SUM_TOLERANCE):
        raise ValueError("its probabilities do not add up to 1")
    chosen = _option(answer.get("choice"))
    if given.get(chosen) != max(given.values()):  # ties are allowed
        raise ValueError("its choice is not the most probable option")
    return chosen, dict(given)
