"""Exceptions that cannot be pickled, or not quite: what is said and decided is the same."""

import json
import re

import pytest

import limpet
from tests.engines.project import ONE, Project, both_engines

CODE = '''
import json

import aiohttp
import multidict
import pydantic
import yarl


class TwoArguments(Exception):
    """Its pickle has one argument: it cannot be made again."""

    def __init__(self, code, text):
        super().__init__(f"{code}: {text}")
        self.code = code


class KeywordOnly(Exception):
    def __init__(self, message, *, response, body=None):
        super().__init__(message)
        self.response = response
        self.body = body
        self.status_code = getattr(response, "status_code", None)


class RateLimitError(KeywordOnly):
    """Known by its name, as those of clients are."""


class Response:
    def __init__(self, status, headers=()):
        self.status_code = status
        self.headers = dict(headers)
        self.lock = threading.Lock()


class Holding(Exception):
    """Has something in it that stays in its process."""

    def __init__(self, message):
        super().__init__(message)
        self.lock = threading.Lock()
        self.callback = lambda: message


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Slotted(Exception):
    __slots__ = ("status_code",)

    def __init__(self):
        self.status_code = 401


class Liar(Exception):
    """Comes back as something else when it is pickled."""

    def __reduce__(self):
        return (ValueError, ("somebody else",))


class Killer(Exception):
    """Ends the process that reads it."""

    def __reduce__(self):
        return (os._exit, (9,))


def local():
    class Local(Exception):
        pass

    return Local("of a function")


def status(code, headers=None):
    info = aiohttp.RequestInfo(yarl.URL("http://h/"), "GET", multidict.CIMultiDictProxy(
        multidict.CIMultiDict()), yarl.URL("http://h/"))
    return aiohttp.ClientResponseError(
        info, (), status=code, message="said no", headers=multidict.CIMultiDict(headers or {}))


def noted():
    error = TwoArguments(5, "noted")
    error.add_note("while it looked for help")
    error.add_note("twice")
    return error


def caused(error, cause):
    try:
        raise error from cause
    except BaseException as made:
        return made


def during(error, first):
    try:
        try:
            raise first
        finally:
            raise error
    except BaseException as made:
        return made


def invalid():
    class Model(pydantic.BaseModel):
        n: int

    try:
        Model(n="many")
    except pydantic.ValidationError as error:
        return error


def parsed():
    try:
        json.loads("{")
    except ValueError as error:
        return error


NULL = open(os.devnull)
ERRORS = {
    "plain": lambda: ValueError("plain"),
    "without words": lambda: ValueError(),
    "many lines": lambda: ValueError("a\\nb\\x1b[31m\\0"),
    "lone surrogate": lambda: ValueError("half \\ud83d"),
    "a long message": lambda: ValueError("long " * 200_000),
    "arguments that are no text": lambda: ValueError({"a": 1}, [2]),
    "key": lambda: KeyError("choices"),
    "name": lambda: NameError("nobody"),
    "import": lambda: ModuleNotFoundError("No module named 'nowhere'", name="nowhere"),
    "a file that is missing": lambda: FileNotFoundError(2, "No such file", "prompt.txt"),
    "assertion": lambda: AssertionError(),
    "recursion": lambda: RecursionError("too deep"),
    "memory": lambda: MemoryError("full"),
    "unicode": lambda: UnicodeDecodeError("utf-8", b"\\xff", 0, 1, "invalid"),
    "json": parsed,
    "pydantic": invalid,
    "two arguments": lambda: TwoArguments(5, "five"),
    "keyword only, 500": lambda: KeywordOnly("down", response=Response(500)),
    "keyword only, 400": lambda: KeywordOnly("bad", response=Response(400)),
    "keyword only, 401": lambda: KeywordOnly("who", response=Response(401)),
    "rate limit by name": lambda: RateLimitError(
        "slow", response=Response(429, {"retry-after": "0.01"})
    ),
    "aiohttp 404": lambda: status(404),
    "aiohttp 429": lambda: status(429, {"Retry-After": "0"}),
    "aiohttp 503": lambda: status(503),
    "a line that broke": lambda: aiohttp.ServerDisconnectedError(),
    "no connection": lambda: ConnectionRefusedError(111, "refused"),
    "a timeout of a client": lambda: TimeoutError("read"),
    "with a lock in it": lambda: Holding("held"),
    "no words of its own": lambda: Silent(),
    "slotted": lambda: Slotted(),
    "another when pickled": lambda: Liar("the real one"),
    "kills who reads it": lambda: Killer("read me"),
    "of a function": local,
    "with notes": noted,
    "a cause": lambda: caused(ValueError("outer"), TwoArguments(1, "inner")),
    "a permanent cause": lambda: caused(KeyError("x"), status(401)),
    "a transient cause": lambda: caused(KeyError("x"), KeywordOnly("t", response=Response(503))),
    "a context": lambda: during(KeyError("second"), TwoArguments(1, "first")),
    "a hidden context": lambda: caused(ValueError("alone"), None),
    "a long chain": lambda: caused(TwoArguments(1, "a"), caused(TwoArguments(2, "b"), status(400))),
    "a group": lambda: ExceptionGroup("both", [ValueError("a"), TwoArguments(2, "b")]),
    "a group with a permanent one": lambda: ExceptionGroup("both", [ValueError("a"), status(403)]),
    "a group of groups": lambda: ExceptionGroup("g", [ExceptionGroup("h", [status(404)])]),
    "a base exception group": lambda: BaseExceptionGroup("g", [KeyboardInterrupt("k")]),
    "permanent of ours": lambda: limpet.PermanentError("ours", hint="do this"),
    "transient of ours": lambda: limpet.TransientError("ours"),
    "rate limit of ours": lambda: limpet.RateLimitError("ours", retry_after=0.01),
    "exit": lambda: SystemExit(3),
    "interrupt": lambda: KeyboardInterrupt("by the code itself"),
    "cancelled": lambda: asyncio.CancelledError("by the code itself"),
    "generator exit": lambda: GeneratorExit(),
    "base": lambda: BaseException("base"),
    "stop iteration": lambda: StopIteration("me"),
    "stop async iteration": lambda: StopAsyncIteration("me"),
    "an open file in it": lambda: ValueError(NULL),
}  # fmt: skip


def raise_it(item):
    raise ERRORS[item.id]()


def answer(item):
    record(item)
    raise_it(item)


async def answer_async(item):
    record(item)
    await asyncio.sleep(0)
    raise_it(item)


async def returning(item):
    """Return the exception: `gather(…, return_exceptions=True)` makes that easy."""
    record(item)
    return {"answers": [ERRORS[item.id]()]}


def fine(item):
    return "said"


def broken(item):
    record(item, "broken")
    raise_it(item)
'''
NAMES = re.findall(r'^    "(.*?)": ', CODE.partition("ERRORS = ")[2].partition("\n}")[0], re.M)
# What an evaluator raises goes the same way: test_values has some.
KINDS = [
    pytest.param("answer", marks=pytest.mark.slow),
    "answer_async",
    pytest.param("broken", marks=pytest.mark.slow),
]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        # A call that is always refused is tried for five minutes.
        patch.setattr("limpet.executors.settlement.MOST_REFUSALS", (2, 2))
        patch.setattr("limpet.pacing.adaptive.REST_S", (0.01, 0.01))
        yield make_runs(tmp_path_factory)


def make_runs(tmp_path_factory):
    rows = [{"id": name, "question": "?"} for name in NAMES]
    project = Project(tmp_path_factory.mktemp("errors"), CODE, rows=rows)
    retry = limpet.Retry(2, limpet.executors.Backoff(base_s=0, cap_s=0))

    class Runs(dict):
        def __missing__(self, which):
            name, kind = which
            evaluators = {"broken": "APP:broken"} if kind == "broken" else {}
            workflow = f"{project.module}:{'fine' if kind == 'broken' else kind}"
            run = f"{name}-{kind}"
            engine = ONE if name == "base" else name
            made = project.evaluate(
                engine, evaluators, run=run, workflow=workflow, retry=retry, pace=4
            )
            found = {item.id: item for item in made.items}, project.folder / "runs" / run
            self[which] = found
            return found

    return Runs()


def error_of(item, kind):
    return item.score_errors["broken"] if kind == "broken" else item.error


def frames(traceback):
    """Return the user's own lines, and the words of each exception of the chain."""
    found = re.findall(r'File "(?!/)[^"]*", line \d+, in \S+|^\w.*$', traceback, re.M)
    return re.sub(r"0x[0-9a-f]+", "0x", "\n".join(found))


def attempts(folder, id_):
    lines = [json.loads(line) for line in (folder / "failures.jsonl").read_text().splitlines()]
    [line] = [line for line in lines if line["_limpet"]["id"] == id_]
    return [(one["class"], one["type"], one["message"]) for one in line["attempts"]]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kind", KINDS)
@both_engines
def test_an_error_says_and_decides_what_it_does_in_one_process(runs, engine, kind, name):
    (base, base_folder), (other, folder) = runs["base", kind], runs[engine, kind]
    first, second = error_of(base[name], kind), error_of(other[name], kind)
    for field in ("type", "message", "class"):
        assert unnumbered(second[field]) == unnumbered(first[field])
    assert other[name].attempts == base[name].attempts
    assert unnumbered(frames(second["traceback"])) == unnumbered(frames(first["traceback"]))
    assert unnumbered(attempts(folder, name)) == unnumbered(attempts(base_folder, name))


@both_engines
def test_an_exception_in_an_answer_is_the_failure_that_raising_it_is(runs, engine):
    raised, returned = runs["base", "answer_async"][0], runs[engine, "returning"][0]
    assert {
        name: (item.error["type"], item.error["class"], unnumbered(item.error["message"]))
        for name, item in returned.items()
    } == {
        name: (item.error["type"], item.error["class"], unnumbered(item.error["message"]))
        for name, item in raised.items()
    }
    assert [item.attempts for item in returned.values()] == [
        item.attempts for item in raised.values()
    ]


def unnumbered(said):
    """Return an error without its input's number: answers reach an evaluator in any order."""
    return re.sub(r"input \d+", "input", str(said))


def test_the_cases_are_of_all_kinds(runs):
    items, _ = runs["base", "answer_async"]
    classes = {item.error["class"] for item in items.values()}
    assert classes >= {"permanent", "transient", "mistake", "rate_limit"}
    assert {item.attempts for item in items.values()} >= {1, 2, 3}
    assert len(NAMES) > 50
