"""`limpet models`: which models does an eval.yml configure, and does each of them reply?"""

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from limpet.cli.error_exit import DONE, FAILED, say_error
from limpet.config.config import Config, UsedModel, load_config
from limpet.config.file_text import load_env_file
from limpet.config.matrix import MATRIX
from limpet.config.models import NotImported
from limpet.errors import InvalidReplyError, LimpetError
from limpet.executors.loops import run_here
from limpet.models import Model
from limpet.models.failures import BadRequestError
from limpet.pacing.memory import of_the_user
from limpet.pacing.registry import PacerRegistry, pacing_with
from limpet.report.tables import NONE, cell, plain_table, put, put_json
from limpet.report.terminal import busy, log_to_stderr, say, stdout_for_data
from limpet.secrets.masking import Secrets
from limpet.text import one_line, text_of

_ASK = [{"role": "user", "content": "Say yes."}]
_CHOICE = {
    "type": "object",
    "properties": {"yes": {"type": "boolean"}},
    "required": ["yes"],
    "additionalProperties": False,
}


def command(
    file: Path, *, check: bool, settings: tuple[str, ...], env_file: Path | None, as_json: bool
) -> int:
    """List the models, and with `check` ask each of them."""
    if env_file is not None:
        load_env_file(env_file, one_line(str(env_file)))
    with stdout_for_data(), log_to_stderr():
        config = load_config(file, [*settings, f"{MATRIX}=null"], needs_keys=False)
        used = config.models()
        rows = [_facts(one) for one in used]
        if check:
            with busy("asking each model for one token"):
                checks = run_here(_check_all(config, used), lambda: ())
            rows = [{**row, **found} for row, found in zip(rows, checks, strict=True)]
    if as_json:
        put_json({"models": rows})
    elif rows:
        put(_table(rows, check=check))
    else:
        say("the file configures no models")
    failed = [row for row in rows if row.get("ok") is False]
    for row in failed if not as_json else ():
        say_error(f"{one_line(row['name'])}: {row['error']}", row["hint"])
    return FAILED if failed else DONE


# ---- What does the file configure? --------------------------------------------------------------


def _facts(used: UsedModel) -> dict[str, Any]:
    model, described = used.model, used.model.described
    keys = getattr(model, "keys", None)
    python = model.python if isinstance(model, NotImported) else None
    return {
        "name": used.name,
        "provider": described.get("provider", "openai") if python is None else "python",
        "model": described["model"] if python is None else python,
        "address": described.get("address"),
        "keys": [
            {"variable": key.variable, "set": key.value is not None}
            for key in (() if keys is None else keys.keys)
            if key.variable or key.value
        ],
        "used_by": list(used.used_by),
    }


def _table(rows: Sequence[Mapping[str, Any]], *, check: bool) -> Any:
    table = plain_table(
        "name", "provider", "model", "address", "key", "used by", *(["reply"] if check else [])
    )
    for row in rows:
        keys = ", ".join(map(_key_words, row["keys"]))
        texts = (row["name"], row["provider"], row["model"], row["address"] or NONE, keys or NONE)
        cells = [cell(one_line(text)) for text in (*texts, ", ".join(row["used_by"]) or NONE)]
        if check:
            words = f"{row['seconds']:.1f} s" if row["ok"] else "failed"
            cells.append(cell(words, style="green" if row["ok"] else "red"))
        table.add_row(*cells)
    return table


def _key_words(key: Mapping[str, Any]) -> str:
    name = key["variable"] or "in the file"
    return name if key["set"] else f"{name} (not set)"


# ---- Does each of them reply? -------------------------------------------------------------------


async def _check_all(config: Config, used: Sequence[UsedModel]) -> list[dict[str, Any]]:
    with pacing_with(PacerRegistry(remembered=of_the_user(), shared=True)):
        return await asyncio.gather(*[_checked(config, one) for one in used])


async def _checked(config: Config, used: UsedModel) -> dict[str, Any]:
    """Return whether a model replies, after how long, and why it does not."""
    began, model = time.monotonic(), used.model
    found: dict[str, Any] = {"ok": True, "seconds": None, "error": None, "hint": None}
    try:
        model = config.imported(model)
        async with asyncio.timeout(config.timeout_s):
            await _asked(model, embeds=used.embeds)
    except TimeoutError as error:
        text = text_of(error) or f"no reply within {config.timeout_s:g} s"
        found |= {"ok": False, "error": text}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a function of the user may raise any
        text, hint = text_of(error), getattr(error, "hint", None)
        if not isinstance(error, LimpetError):
            text = f"{type(error).__name__}: {text}"
        found |= {"ok": False, "error": text, "hint": hint}
    show = Secrets({}, [*model.secrets]).show
    shown = {name: show(found[name]) for name in ("error", "hint") if found[name]}
    return {**found, **shown, "seconds": round(time.monotonic() - began, 3)}


async def _asked(model: Model, *, embeds: bool) -> None:
    keys = getattr(model, "keys", None)
    await model.open()
    try:
        for _ in (None,) if keys is None else keys.keys:  # they take turns
            await _ask(model, embeds=embeds)
        if keys is not None and keys.aside:
            raise next(iter(keys.aside.values()))
    finally:
        await model.close()


async def _ask(model: Any, *, embeds: bool) -> None:
    """Ask for one token; any reply will do."""
    if embeds:
        await model.embed(["yes"])
        return
    schema = {"schema": _CHOICE} if getattr(model, "form", "") == "decision" else {}
    try:
        await model.ask(_ASK, **schema, **({} if schema else {"max_tokens": 1}))
    except (BadRequestError, TypeError):  # it has another name for that, or takes no parameters
        await model.ask(_ASK, **schema)
    except InvalidReplyError:
        return  # one token is no answer, but a reply
