"""A prompt as a workflow: filled with each row's fields, and sent to a model."""

import asyncio
import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from limpet.errors import DatasetError, PermanentError, wrong_argument
from limpet.fingerprints.keys import digest
from limpet.models import Model, Reply, as_model, openai_api
from limpet.models.protocol import model_name
from limpet.models.schema import check_schema
from limpet.models.server_model import NOT_PARAMS
from limpet.secrets.known import secrets_under_names
from limpet.shapes import USAGE_COUNTS, Item, Output
from limpet.workflows.prompt_templates import Messages, PromptTemplate, Rendered
from limpet.workflows.protocol import Workflow


def openai(
    url: str | None = None,
    *,
    model: Any,
    prompt: str | None = None,
    messages: Messages | None = None,
    images: str | Sequence[str] = (),
    files: str | Sequence[str] = (),
    schema: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
    folder: str | Path = "",
    version: str | None = None,
    name: str = "openai",
    **options: Any,
) -> Workflow:
    """Evaluate a prompt: call a model for each row.

    Args:
        url: The base address of a server that speaks the OpenAI API: `https://api.openai.com/v1`.
            None: `model` is already a model.
        model: The model's name on the server; without `url`, anything that `as_model` takes.
        prompt: One user message, with placeholders: `"{{question}}"`.
        messages: The entire conversation, instead of `prompt`. An element that is only a
            placeholder, `"{{history}}"`, becomes the messages in that field.
        images: Images for the last message: `["{{photo}}"]`. A field has a URL, or the path of a
            file below `folder`, or a list of them; an empty field means none.
        files: Other files, likewise.
        schema: The JSON schema of the answer; the answer is then the parsed value.
        params: Parameters for each call: `{"temperature": 0}`.
        folder: The folder of images and files; by default, the current one.
        version: The declared version of the model: its address may then change.
        name: Its name.
        **options: With `url`, how to call it: `key`, `headers`, `timeout`, … as for
            `limpet.models.openai_api`.

    Raises:
        LimpetError: An argument is invalid.
        TypeError: An option does not exist, or has the wrong type.
        ValueError: An option has a value that is not allowed.
    """
    conversation = PromptTemplate(prompt, messages, images, files, Path(folder).absolute())
    for argument, value in (("params", params), ("schema", schema)):
        if value is not None and not isinstance(value, Mapping):
            raise wrong_argument(argument, "must be a mapping", value)
    for parameter in NOT_PARAMS.intersection(params or {}):
        raise wrong_argument("params", f"{parameter!r} is not a parameter but a separate argument")
    if schema is not None:
        check_schema(schema)
    if url is not None:
        client: Model = openai_api(url, model=model, **options)
    elif options:
        raise TypeError(f"{next(iter(options))!r} works only with url: give it to the model")
    else:
        client = as_model(model)
    if (check := getattr(client, "check_asked", None)) is not None:
        asked = {"images": images, "documents": files}
        check([ability for ability, given in asked.items() if given], params or {})
    return OpenaiWorkflow(name, client, conversation, dict(params or {}), schema, version)


class OpenaiWorkflow(Workflow):
    """A prompt and its model; see `openai`."""

    def __init__(
        self,
        name: str,
        model: Model,
        conversation: PromptTemplate,
        params: Mapping[str, Any],
        schema: Mapping[str, Any] | None,
        version: str | None,
    ) -> None:
        self.name = name
        self.endpoint = model.endpoint
        self.sees_files = conversation.may_have_files
        self._model = model
        self._conversation = conversation
        self._params = params
        self._schema = schema
        self._version = version

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._model.name}>"

    @property
    def model(self) -> Model:
        """The model that answers."""
        return self._model

    @property
    def secrets(self) -> Iterable[str]:  # type: ignore[override]  # it is only read
        """The model's secrets, such as its key, and those in the parameters."""
        return [*self._model.secrets, *secrets_under_names(self._params)]

    @property
    def model_names(self) -> list[str]:
        """The name of its model in requests."""
        return [model_name(self._model)]

    @property
    def reserves(self) -> bool:
        """Whether each of its requests reserves what it may use."""
        return self._model.reserves

    @property
    def _counted(self) -> dict[str, Any]:
        """The settings that its answers depend on, besides the item and the model."""
        more = {"params": self._params, "schema": self._schema, "version": self._version}
        return {
            **self._conversation.template,
            **{name: value for name, value in more.items() if value},
        }

    @functools.cached_property
    def fingerprint(self) -> Mapping[str, str]:  # type: ignore[override]  # it is only read
        """The digest of each setting that its answers depend on; a version replaces the model's."""
        own = {name: digest(value) for name, value in self._counted.items()}
        return {**own, **self._of_model(self._model.fingerprint)}

    @property
    def described(self) -> Mapping[str, Any]:
        """The content of the fingerprint, for people."""
        return {**self._counted, **self._of_model(self._model.described)}

    def _of_model(self, parts: Mapping[str, Any]) -> dict[str, Any]:
        if self._version is not None:
            return {}
        return {f"model.{name}": value for name, value in parts.items()}

    def seen(self, item: Item) -> Any:
        """Return the fields that the prompt names, and the contents of images and files."""
        return {
            "fields": self._conversation.fields(item),
            "files": self._conversation.contents(item),
        }

    async def open(self) -> None:
        await self._model.open()

    async def close(self) -> None:
        await self._model.close()

    async def call(self, item: Item) -> Output:
        shown = self._conversation.messages(item)
        sent = await self._with_files(shown)
        started = time.time()
        reply = await self._model.ask(sent, schema=self._schema, **self._params)
        value = _answer(reply) if self._schema is None else reply.parsed
        event = _event(reply, self._model.name, shown, value, started)
        metadata = {"finish": reply.finish} if reply.finish == "length" else None
        return Output(value, reply.usage, [event, *map(_call, reply.tool_calls)], metadata)

    async def _with_files(self, messages: Rendered) -> Rendered:
        if not self._conversation.may_have_files:
            return messages
        try:
            return await asyncio.to_thread(self._conversation.with_files, messages)
        except DatasetError as error:  # it was there when the run was planned
            raise PermanentError(str(error), hint=error.hint) from error


def _answer(reply: Reply) -> Any:
    """Return the text of a reply, or its tool calls if it has no text."""
    if reply.text or not reply.tool_calls:
        return reply.text
    calls = [{name: call[name] for name in ("name", "arguments")} for call in reply.tool_calls]
    return {"tool_calls": calls}


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool call as an event of a trace. It was not executed, so it has no output."""
    id_ = {"id": call["id"]} if "id" in call else {}
    return {"kind": "tool", "name": call["name"], "input": call["arguments"], **id_}


def _event(
    reply: Reply, model: str, messages: Rendered, value: Any, started: float
) -> dict[str, Any]:
    """Return the call as an event of a trace."""
    event = {
        "kind": "model",
        "name": reply.model or model,
        "started": started,
        "ended": time.time(),
        "input": messages,
        "output": value,
    }
    if reply.usage is not None:
        counts = {name: getattr(reply.usage, name) for name in USAGE_COUNTS}
        event["usage"] = {name: count for name, count in counts.items() if count}
    more = ("reasoning", "alternatives", "logprobs", "first_token_s")
    beside = {name: getattr(reply, name) for name in more}
    return event | {name: value for name, value in beside.items() if value}
