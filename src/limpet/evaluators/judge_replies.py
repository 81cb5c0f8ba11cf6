"""How is a judge asked until its reply can be used?

A 200 proves nothing: a server may ignore the schema, truncate a reply, or refuse. A reply that does
not fit exactly is never repaired into a score. The model is told what is wrong and asked again, a
few times at most; then there is no score.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from limpet.errors import InvalidReplyError
from limpet.evaluators.builtin import brief
from limpet.evaluators.judge_prompt import KEY, Values, fenced, fresh_key
from limpet.models.chat import fall_back
from limpet.models.protocol import Message, Model, Reply
from limpet.placeholders import value_as_text
from limpet.text import text_of
from limpet.usage import add_receipt, plain_usage, receipts_in, total_usage

Read = Callable[[Reply], dict[str, Any]]
"""Returns the content of a reply as plain data, or raises `InvalidReplyError`."""
_UNFINISHED = {"length": "is truncated", "content_filter": "was stopped by a content filter"}
_LONGEST_ECHO = 4_000
WHOLE = object()
"""The whole reply."""


async def ask_for_reply(
    model: Model,
    messages: Sequence[Message],
    schema: Mapping[str, Any],
    read: Read,
    *,
    reasks: int,
    params: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the content of the model's reply, with `model` and the `usage` of all questions.

    Raises:
        InvalidReplyError: No reply is usable; its `usage` is that of all questions.
    """
    conversation, asked = list(messages), 0
    used: list[dict[str, Any] | None] = []
    while True:
        asked += 1
        try:
            said = await _ask_once(model, conversation, schema, read, params)
        except InvalidReplyError as error:
            used.append(error.usage)
            if asked > 1 and fall_back(model, error):
                conversation, asked = list(messages), 0
                continue
            if asked > reasks:
                times = "" if len(used) == 1 else f" (the last of {len(used)} replies)"
                raise _failure(f"{text_of(error)}{times}", error, total_usage(used)) from error
            conversation += _complaint(error)
        else:
            return {**said, "usage": total_usage([*used, said["usage"]])}


async def _ask_once(
    model: Model,
    messages: Sequence[Message],
    schema: Mapping[str, Any],
    read: Read,
    params: Mapping[str, Any],
) -> dict[str, Any]:
    with receipts_in([]) as receipts:
        try:
            reply = await model.ask(messages, schema=schema, **params)
        except InvalidReplyError as error:
            error.usage = plain_usage(error.usage, model.name)
            raise
    name = reply.model or model.name
    usage = plain_usage(reply.usage, name)
    if not receipts:  # a model of the user's
        add_receipt(usage)
    for receipt in receipts:
        add_receipt(receipt)
    try:
        said = _read(reply, read)
    except InvalidReplyError as error:
        raise _failure(f"{model.name}: {text_of(error)}", error, usage) from None
    return {**said, "model": name, "usage": usage}


def _read(reply: Reply, read: Read) -> dict[str, Any]:
    if why := _UNFINISHED.get(reply.finish or ""):
        raise invalid(reply, f"the reply {why}")
    said = read(reply)
    if reply.probabilities is not None:
        said["probabilities"] = dict(reply.probabilities)
    return said


def invalid(reply: Reply, why: str) -> InvalidReplyError:
    """Return the error for an unusable reply."""
    error = InvalidReplyError(why)
    error.reply = reply.text or ("" if reply.parsed is None else value_as_text(reply.parsed))
    return error


def object_in(reply: Reply, keys: Collection[str], part: Any = WHOLE) -> Mapping[str, Any]:
    """Return the object of a reply, or a part of it, which has exactly these keys.

    Raises:
        InvalidReplyError: It is something else.
    """
    parsed = reply.parsed if part is WHOLE else part
    wanted = f"must be an object with {', '.join(keys)} and nothing else"
    if not isinstance(parsed, Mapping):
        shown = reply.text if reply.text and part is WHOLE else parsed
        raise invalid(reply, f"the reply {wanted}, not {brief(shown)}")
    if parsed.keys() != set(keys):
        raise invalid(reply, f"the reply {wanted}, not {brief(dict(parsed))}")
    return parsed


def reason_and(reply: Reply, answer: str, part: Any = WHOLE) -> tuple[str | None, Any]:
    """Return the reason and the answer of a reply, or a part of it, that is an object of both.

    A decision endpoint gives no reason: it replies with probabilities instead.

    Raises:
        InvalidReplyError: It is something else.
    """
    if reply.probabilities is not None:
        return None, object_in(reply, (answer,), part)[answer]
    parsed = object_in(reply, ("reason", answer), part)
    return string_in(reply, parsed, "reason"), parsed[answer]


def string_in(reply: Reply, holder: Mapping[str, Any], key: str) -> str:
    """Return a string of a reply.

    Raises:
        InvalidReplyError: It is something else.
    """
    value = holder[key]
    if not isinstance(value, str):
        raise invalid(reply, f"{key} must be a string, not {brief(value)}")
    return value


def _complaint(error: InvalidReplyError) -> list[Message]:
    """Return the messages that ask again. The reason may quote data, so it is fenced, too."""
    said: Values = {"why": text_of(error)}
    why = fenced(said["why"], key := fresh_key(said))
    again: list[Message] = []
    if error.reply:
        again.append({"role": "assistant", "content": error.reply[:_LONGEST_ECHO]})
    content = f"Your reply cannot be used. Reply again, as told.\n\n{KEY}{key}\n\nWhy:\n{why}"
    again.append({"role": "user", "content": content})
    return again


def _failure(
    message: str, error: InvalidReplyError, usage: Mapping[str, Any] | None
) -> InvalidReplyError:
    failure = InvalidReplyError(message, hint=error.hint)
    failure.reply, failure.usage = error.reply, usage
    return failure
