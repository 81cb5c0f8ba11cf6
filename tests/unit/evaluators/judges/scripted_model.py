"""A model that replies by a script, and the ballots of one score in memory."""

import asyncio
import json

from limpet.errors import InvalidReplyError
from limpet.evaluators import Scored
from limpet.evaluators.judge_votes import casting_into
from limpet.fingerprints.keys import digest
from limpet.models import Model, Reply
from limpet.shapes import Item, Usage

USAGE = Usage(10, 5)


def said(label, reason="because", **fields):
    """Return a reply with a label."""
    return replied({"reason": reason, "label": label}, **fields)


def replied(parsed, **fields):
    return Reply(
        json.dumps(parsed), **{"parsed": parsed, "usage": USAGE, "finish": "stop", **fields}
    )


class ScriptedModel(Model):
    """Replies with what `script` holds or returns: a reply, or an exception to raise."""

    def __init__(self, script, name="scripted", version="1"):
        self.name = name
        self.endpoint = f"server of {name}"
        self.fingerprint = {"model": digest(name, version)}
        self.secrets = [f"key of {name}"]
        self._script = script if callable(script) else None
        self._replies = None if callable(script) else list(script)
        self.asked = []
        self.schemas = []
        self.params = []
        self.opened = 0

    async def open(self):
        self.opened += 1

    async def close(self):
        self.opened -= 1

    async def ask(self, messages, *, schema=None, **params):
        messages = list(messages)
        self.asked.append(messages)
        self.schemas.append(schema)
        self.params.append(params)
        reply = self._script(messages) if self._script else self._replies.pop(0)
        if asyncio.iscoroutine(reply):
            reply = await reply
        if isinstance(reply, BaseException):
            raise reply
        return reply

    @property
    def shown(self):
        """The last message of the first conversation."""
        return self.asked[0][-1]["content"]


class Memory:
    """The ballots of a run: kept by their identity, never forgotten."""

    def __init__(self):
        self.cast_before = {}

    async def cast(self, identity, ask):
        key = digest(identity)
        if key not in self.cast_before:
            self.cast_before[key] = json.loads(json.dumps(await ask()))
        return self.cast_before[key]


def unusable(text="no JSON", usage=USAGE):
    error = InvalidReplyError("the reply is not JSON")
    error.reply, error.usage = text, usage
    return error


def scored(output="Paris", expected="Paris", /, **row):
    item = Item("7", "Capital of France?", expected, row)
    return Scored(output, expected, item.input, item, (), "item '7'")


def output_of(evaluator, seen=None, ballots=None):
    """Return what the evaluator returns for one output."""

    async def call():
        seen_ = scored() if seen is None else seen
        if ballots is None:
            return await evaluator.call(seen_)
        with casting_into(ballots):
            return await evaluator.call(seen_)

    return asyncio.run(call())


def score_of(evaluator, seen=None, ballots=None, name="score"):
    return output_of(evaluator, seen, ballots).value[name]
