"""The version of Python does not count: the same code has the same identity on each of them.

What a test can know is one version. So the digest below is the one that all of them gave, and a
run that was made with an older Python goes on with a newer one.
"""

import sys
from types import ModuleType

from limpet.fingerprints.identity import identity_of

CODE = '''
import asyncio
import re
from collections import defaultdict, namedtuple
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cache, cached_property, lru_cache, partial, wraps
from pathlib import Path
from typing import (
    Annotated, Any, Dict, Generic, Literal, NamedTuple, Optional, ParamSpec, Protocol, TypedDict,
    TypeVar, Union,
)

T = TypeVar("T")
P = ParamSpec("P")
Label = Literal["good", "bad"]
Short = Annotated[str, "at most 80 characters"]
Hint = Dict[str, Callable[[int], str]]
Prompt = namedtuple("Prompt", "role text", defaults=["hello"])
KIND = Path
WORDS = re.compile("[a-z]+", re.IGNORECASE)
COUNTS = defaultdict(list, a=[1, 2.5, None])


class Tone(Enum):
    """How it sounds."""

    MILD = auto()
    HARSH = "harsh"


class Asked(TypedDict, total=False):
    question: str


class Pair(NamedTuple):
    left: int
    right: int = 2


class Tool(Protocol):
    def run(self, text: str) -> str:
        return text


@dataclass(frozen=True, slots=True)
class Settings:
    model: str = "small"
    stops: list[str] = field(default_factory=list)


class Agent(Generic[T]):
    """An agent.

        With an indented line.
    """

    limit: int = 3

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.path = Path("prompts") / "a.txt"

    @cached_property
    def system(self) -> str:
        """What it is told."""
        return f"{self.settings.model!r:>{10}} of {self.limit:03d} {{}} {'nested'}"

    @property
    def first(self):
        return self.system[0]

    @classmethod
    def made(cls):
        return cls(Settings())

    @staticmethod
    def same(text):
        return text


AGENT = Agent(Settings("large", ["."]))


@cache
def cached(text: str) -> str:
    return text.upper()


@lru_cache(maxsize=8)
def kept(text: "str") -> Optional[str]:
    return text


def noted(function: Callable[P, T]) -> Callable[P, T]:
    @wraps(function)
    def inner(*args: P.args, **kwargs: P.kwargs) -> T:
        return function(*args, **kwargs)
    return inner


@noted
def plain(text: str, /, *, mark: str = "!") -> str:
    return text + mark


async def parts(text) -> AsyncIterator[str]:
    for part in text.split():
        yield part
        await asyncio.sleep(0)


async def answer(question: str) -> Union[str, None]:
    """Answer a question."""
    words = [word async for word in parts(question) if (found := WORDS.match(word))]
    pairs = {word: [len(part) for part in words if part != word] for word in words}
    try:
        match pairs:
            case {"a": [first, *_], **rest} if rest:
                return str(first)
            case {}:
                pass
    except* ValueError as error:
        raise KeyError(*error.exceptions) from None
    finally:
        del pairs
    with open(KIND("x")) as one, open("y") as other:
        print(one, other, sep="", end=f"""{question}
          {Tone.MILD.name:{AGENT.limit}}""")
    found = partial(plain, mark="?")
    return (
        AGENT.system, AGENT.first, Agent.made, cached(question), kept(question), found(question),
        Label, Short, Hint, Prompt(1), Pair(1), Tone.HARSH, COUNTS, Asked, Tool,
        T, P, lambda x, *y: x[1:, ::2] @ y,
    )
'''
FINGERPRINT = "7f723ac07b090f5a1bbbd366215fbe72"


def test_code_has_the_same_identity_on_every_version_of_python(tmp_path, monkeypatch):
    (tmp_path / "everyday.py").write_text(CODE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(sys.modules, "__main__", ModuleType("__main__"))
    import everyday

    found = identity_of(everyday.answer)
    del sys.modules["everyday"]
    assert not found.left_out
    # If you changed a form on purpose, put its digest above once all versions agree on it.
    assert found.fingerprint == FINGERPRINT, dict(found.parts)
