"""Values that are hard to send: an answer and a score are what they are in one process."""

import re

import pytest

from limpet.run.reading import RunReader
from tests.engines.project import (
    ONE,
    Project,
    both_engines,
    without,
)

CODE = '''
import collections
import dataclasses
import datetime
import decimal
import enum
import fractions
import types
import uuid

import numpy
import pydantic


@dataclasses.dataclass
class Point:
    x: int
    y: float = float("inf")


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    points: tuple


class Model(pydantic.BaseModel):
    name: str
    inner: dict = {}


class Colour(enum.Enum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Text(str):
    """A string with more."""


class Stubborn:
    """Refuses to be pickled, and has a repr."""

    def __reduce__(self):
        raise TypeError("I stay here")

    def __repr__(self):
        return "<Stubborn>"


class Mute:
    def __repr__(self):
        raise RuntimeError("no repr")


def deep(levels):
    found = "bottom"
    for _ in range(levels):
        found = [found]
    return found


def cycle():
    found = []
    found.append(found)
    return found


Pair = collections.namedtuple("Pair", "left right")
SHARED = ["once"]
NULL = open(os.devnull)
VALUES = {
    "none": lambda: None,
    "empty text": lambda: "",
    "empty list": lambda: [],
    "true": lambda: True,
    "zero": lambda: 0,
    "minus zero": lambda: -0.0,
    "nan": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "minus infinity": lambda: float("-inf"),
    "nan deep in a list": lambda: {"a": [1, float("nan"), {"b": float("-inf")}]},
    "tiny float": lambda: 5e-324,
    "2 to the 63": lambda: 2**63,
    "a huge integer": lambda: 10**400,
    "a negative huge integer": lambda: -(10**30),
    "bytes": lambda: bytes(range(256)),
    "bytearray": lambda: bytearray(b"abc"),
    "memoryview": lambda: memoryview(b"abc"),
    "tuple": lambda: (1, ("two", 3.0)),
    "set": lambda: {"one"},
    "frozenset": lambda: frozenset({2}),
    "complex": lambda: 1 + 2j,
    "range": lambda: range(3),
    "decimal": lambda: decimal.Decimal("1.10"),
    "fraction": lambda: fractions.Fraction(1, 3),
    "date": lambda: datetime.date(2026, 11, 16),
    "moment": lambda: datetime.datetime(2026, 11, 16, tzinfo=datetime.timezone.utc),
    "uuid": lambda: uuid.UUID(int=5),
    "path": lambda: pathlib.PurePosixPath("a/b"),
    "enum": lambda: Colour.RED,
    "integer enum": lambda: Number.ONE,
    "named tuple": lambda: Pair(1, "b"),
    "ordered dict": lambda: collections.OrderedDict(b=1, a=2),
    "default dict": lambda: collections.defaultdict(list, a=[1]),
    "mapping proxy": lambda: types.MappingProxyType({"a": 1}),
    "text of a subclass": lambda: Text("said"),
    "integer keys": lambda: {1: "a", 2: "b"},
    "keys of two types": lambda: {1: "a", "1": "b"},
    "tuple keys": lambda: {(1, 2): "a"},
    "dataclass": lambda: Point(1),
    "slotted dataclass": lambda: Slotted((Point(1), Point(2, 0.5))),
    "pydantic model": lambda: Model(name="m", inner={"a": (1,)}),
    "numpy number": lambda: numpy.float32(0.1),
    "numpy integer": lambda: numpy.int64(7),
    "numpy array": lambda: numpy.arange(6).reshape(2, 3),
    "5 MB of text": lambda: "ü€" * 1_000_000,
    "5 MB of small things": lambda: [{"n": n} for n in range(100_000)],
    "lone surrogate": lambda: "half \\ud83d and more",
    "NUL": lambda: "a\\0b",
    "line separators": lambda: "a\\u2028b\\r\\nc\\x1b[31m",
    "150 levels": lambda: deep(150),
    "900 levels": lambda: deep(900),
    "100,000 levels": lambda: deep(100_000),
    "a cycle": cycle,
    "the same list twice": lambda: [SHARED, SHARED],
    "a lock": threading.Lock,
    "a generator": lambda: (n for n in range(3)),
    "a lambda": lambda: lambda: 1,
    "a class": lambda: Point,
    "a module": lambda: os,
    "an exception": lambda: ValueError("as a value"),
    "an open file": lambda: NULL,
    "one that refuses to be pickled": Stubborn,
    "one without a repr": Mute,
    "an output": lambda: limpet.Output("said", usage={"total_tokens": 3}, trace=[{"kind": "tool"}],
                                       metadata={"at": (1, 2), "b": b"x", "n": float("nan")}),
    "an output in an output": lambda: limpet.Output({"a": Point(1)}, metadata=Point(2)),
    "an output with a usage that is none": lambda: limpet.Output("said", usage={"n": "?"}),
    "an output with a trace that is none": lambda: limpet.Output("said", trace=5),
    "an output with an object of a client as usage": lambda: limpet.Output(
        "said", usage=types.SimpleNamespace(prompt_tokens=1, completion_tokens=2)
    ),
    "an output with a lock in its trace": lambda: limpet.Output("said", trace=[threading.Lock()]),
    "a score": lambda: limpet.Score(1, explanation="as an answer"),
}  # fmt: skip

SCORES = {
    "true": lambda: True,
    "one": lambda: 1,
    "huge": lambda: 10**400,
    "float": lambda: 0.1 + 0.2,
    "numpy": lambda: numpy.float64(0.5),
    "numpy bool": lambda: numpy.bool_(True),
    "label": lambda: "kind",
    "lone surrogate": lambda: "\\ud83d",
    "several": lambda: {"a": 1, "b": "kind", "c": limpet.Score(0.5, "half", "why", {"n": [1]})},
    "score": lambda: limpet.Score(0.25, "low", "because", {"at": (1, 2), "b": b"x"}),
    "score with an object": lambda: limpet.Score(1, metadata={"p": Point(1)}),
    "output around a score": lambda: limpet.Output(limpet.Score(1), usage={"total_tokens": 5}),
    "none": lambda: None,
    "nan": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "a lock": threading.Lock,
    "a list": lambda: [1, 2],
    "an empty dict": dict,
    "dataclass": lambda: Point(1),
    "stubborn": Stubborn,
    "decimal": lambda: decimal.Decimal("0.5"),
    "enum": lambda: Colour.RED,
}


def answer(item):
    return VALUES.get(item.id, lambda: "said")()


def form(output):
    """What an evaluator is given: its type, and what it says of itself."""
    try:
        return f"{type(output).__name__} {output!r:.200}"
    except Exception as error:
        return f"{type(output).__name__} {error!r}"


def given(item):
    return SCORES.get(item.id.removeprefix("score "), lambda: 1)()
'''
NAMES = re.findall(r'^    "(.*?)": ', CODE.partition("SCORES = ")[0], re.M)
SCORES = re.findall(r'^    "(.*?)": ', CODE.partition("SCORES = ")[2].partition("\n}\n")[0], re.M)


def make(folder):
    names = [*NAMES, *(f"score {name}" for name in SCORES)]
    rows = [{"id": name, "question": "?", "answer": "said"} for name in names]
    return Project(folder, CODE, rows=rows)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    project = make(tmp_path_factory.mktemp("values"))
    evaluators = {"form": "APP:form", "given": "APP:given"}

    class Runs(dict):
        def __missing__(self, name):
            made = project.evaluate(ONE if name == "base" else name, evaluators, run=name)
            with RunReader(made.run) as reader:
                records = list(reader.items())
            self[name] = {
                item.id: (item, record) for item, record in zip(made.items, records, strict=True)
            }
            return self[name]

    return Runs()


def text(thing):
    """Return a value as text that tells NaN, -0.0 and types apart, and no addresses."""
    return re.sub(r"0x[0-9a-f]+", "0x", repr(thing))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
@both_engines
def test_an_answer_is_what_it_is_in_one_process(runs, engine, name):
    base, other = runs["base"][name][0], runs[engine][name][0]
    for field in ("status", "output", "usage"):  # an output has its trace and metadata
        assert text(getattr(other, field)) == text(getattr(base, field)), field
    if base.error:
        for field in ("type", "message", "class"):
            assert text(other.error[field]) == text(base.error[field])
    if "form" in base.scores:  # what an evaluator got is what it gets in one process
        assert text(other.scores["form"]) == text(base.scores["form"])


def given_by(item):
    return {name: one for name, one in item.scores.items() if name.partition(".")[0] == "given"}


@pytest.mark.parametrize("name", SCORES)
@both_engines
def test_a_score_is_what_it_is_in_one_process(runs, engine, name):
    (base, known), (other, found) = runs["base"][f"score {name}"], runs[engine][f"score {name}"]
    assert text(found.scores.get("given")) == text(known.scores.get("given"))
    assert text(given_by(other)) == text(given_by(base))
    assert text(without(found.score_usage)) == text(without(known.score_usage))
    errors = [one.score_errors.get("given") for one in (base, other)]
    assert (errors[0] is None) == (errors[1] is None)
    if errors[0]:
        for field in ("type", "message", "class"):
            assert text(errors[1][field]) == text(errors[0][field])


def test_the_cases_are_not_all_of_one_kind(runs):
    """The one half of this file: in one process, some of these cannot be stored, most can."""
    statuses = [runs["base"][name][0].status.value for name in NAMES]
    assert statuses.count("completed") > 40
    assert statuses.count("failed") >= 1
    given = [runs["base"][f"score {name}"][0].score_errors for name in SCORES]
    assert sum(map(bool, given)) >= 4
    assert len(NAMES) > 60
    assert len(SCORES) > 20
