"""What a step is made of is on disk, a difference is shown, and no secret is in either."""

import importlib
import itertools
import json
import sys
import textwrap

import pytest

import limpet
from limpet.fingerprints.differences import differences
from limpet.fingerprints.identity import identity_of
from limpet.fingerprints.part_contents import MOST_TEXT
from limpet.journal.layout import layout_at
from limpet.run.planning.identity_file import read_identity
from limpet.run.planning.why import why_on_disk
from limpet.run.reading import RunReader
from limpet.secrets.in_code import without_literals, without_settings

ROWS = [{"id": str(n), "input": f"q{n}"} for n in range(3)]
MANY = [{"id": str(n), "input": f"q{n}"} for n in range(101)]  # so many that an edit asks
_NUMBERS = itertools.count()


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module of the user's own, and import it."""
    monkeypatch.syspath_prepend(tmp_path)
    names = []

    def make(code):
        name = f"explained_{next(_NUMBERS)}"
        names.append(name)
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(code), encoding="utf-8")
        importlib.invalidate_caches()
        return importlib.import_module(name)

    yield make
    for name in names:
        sys.modules.pop(name, None)


@pytest.fixture
def edited(module):
    """Return the differences between two versions of a module's `answer`."""

    def compare(before, after):
        identities = []
        for code in (before, after):
            app = module(code)
            identities.append(identity_of(app.answer))
        return between(*identities)

    return compare


def between(was, now):
    known = {(n, one.parts[n]): s for one in (was, now) for n, s in one.shown.parts.items()}
    return differences(was.parts, now.parts, known)


def on_disk(path):
    return json.loads((path / "identity.json").read_text(encoding="utf-8"))


def texts(path):
    return {
        name: part.get("text") for name, part in on_disk(path)["steps"]["workflow"]["parts"].items()
    }


def lines(found):
    return {one.name: list(one.lines) for one in found}


# ---- what is on disk ----------------------------------------------------------------------------

PARTS = '''
    import os
    from dataclasses import dataclass, field

    PROMPT = """You are kind.
    Answer in one word.
    Be quick.
    """
    CONFIG = {"llm": {"model": "gpt", "n": [1, 2.5, None, True]}, 3: (1,), "raw": b"x"}

    @dataclass
    class Agent:
        role: str
        tools: list = field(default_factory=list)

        def ask(self, q):
            return self.role + q  # as it is

    AGENT = Agent("planner", ["search"])

    def answer(q, style="kind"):
        # says it
        return AGENT.ask(q) + PROMPT + str(CONFIG) + os.environ.get("TONE", "") + style
'''


def test_each_part_is_on_disk_with_its_kind_and_what_it_was(tmp_path, module, monkeypatch):
    monkeypatch.setenv("TONE", "mild")
    limpet.evaluate(ROWS, module(PARTS).answer, run=tmp_path / "run")
    known = on_disk(tmp_path / "run")
    assert known["format"] == 2
    parts = known["steps"]["workflow"]["parts"]
    assert all(len(part["digest"]) == 32 for part in parts.values())
    kinds = {name: part["kind"] for name, part in parts.items()}
    assert kinds["answer"] == kinds["Agent.ask"] == "function"
    assert (kinds["Agent"], kinds["CONFIG"], kinds["variable TONE"]) == (
        "class", "value", "variable",
    )  # fmt: skip
    told = texts(tmp_path / "run")
    assert told["answer"].startswith('def answer(q, style="kind"):\n    # says it\n    return')
    assert told["Agent.ask"] == "def ask(self, q):\n    return self.role + q  # as it is\n"
    assert "tools: list" in told["Agent"]
    assert "def ask" not in told["Agent"]
    assert told["PROMPT"] == '"""You are kind.\nAnswer in one word.\nBe quick.\n"""'
    assert told["variable TONE"] == "mild"
    assert told["answer(style)"] == '"kind"'
    assert told["AGENT.role"] == '"planner"'
    for piece in ('"model": "gpt"', "[1, 2.5, None, True]", "3: (1,)", "b'x'"):
        assert piece in told["CONFIG"]


def test_files_variables_and_packages_that_were_declared_are_shown(tmp_path, module, monkeypatch):
    (tmp_path / "tone.txt").write_text("Be kind.\n", encoding="utf-8")
    (tmp_path / "picture.bin").write_bytes(b"\x00\x01")
    (tmp_path / ".env").write_text("X=deadbeef\n", encoding="utf-8")
    (tmp_path / "set.yml").write_text("tone: mild\napi_key: hunter2\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BACKEND", "b1")
    files = ["tone.txt", "picture.bin", ".env", "set.yml"]
    limpet.evaluate(
        ROWS,
        module("def answer(q): return q").answer,
        run=tmp_path / "run",
        depends_on={"files": files, "env": ["BACKEND"], "packages": ["click"]},
    )
    told = texts(tmp_path / "run")
    assert told["file tone.txt"] == "Be kind.\n"
    assert told["file picture.bin"] is None
    assert told["file .env"] is None
    assert told["file set.yml"] == "tone: mild\napi_key: [redacted]\n"
    assert told["variable BACKEND"] == "b1"
    assert told["package click"][0].isdigit()


def test_a_huge_value_is_shortened_and_that_is_said(tmp_path, module):
    app = module(f"A = list(range(60_000))\nB = 'x' * {MOST_TEXT * 3}\ndef answer(q): return A, B")
    limpet.evaluate(ROWS, lambda q: str(len(app.answer(q))), run=tmp_path / "run")
    assert (tmp_path / "run/identity.json").stat().st_size < 200_000
    known = on_disk(tmp_path / "run")["steps"]["workflow"]
    shortened = {name for name, part in known["parts"].items() if part.get("shortened")}
    assert {name.rpartition(".")[2] for name in shortened} == {"A", "B"}
    assert known["shortened"] is True


def test_all_of_it_is_bounded(tmp_path, module):
    code = [f"V{n} = '{n} ' + 'x' * 19_000" for n in range(150)]
    names = ", ".join(f"V{n}" for n in range(150))
    app = module("\n".join([*code, f"def answer(q): return str(len([{names}]))"]))
    limpet.evaluate(ROWS, app.answer, run=tmp_path / "run")
    assert (tmp_path / "run/identity.json").stat().st_size < 2_500_000
    assert on_disk(tmp_path / "run")["steps"]["workflow"]["shortened"] is True


def test_a_function_without_source_has_a_name_and_no_text(tmp_path):
    scope = {"__name__": "__main__"}
    exec("P = 'a'\ndef answer(q): return q + P", scope)  # noqa: S102 - as a notebook does
    limpet.evaluate(MANY, scope["answer"], run=tmp_path / "run")
    parts = on_disk(tmp_path / "run")["steps"]["workflow"]["parts"]
    assert parts["answer"]["kind"] == "function"
    assert "text" not in parts["answer"]
    assert parts["P"]["text"] == '"a"'
    scope["P"] = "b"
    with pytest.raises(limpet.FunctionChangedError) as caught:
        limpet.evaluate(MANY, scope["answer"], run=tmp_path / "run")
    assert lines(caught.value.differences) == {"P": ['- "a"', '+ "b"']}


def test_the_identity_before_is_kept_and_so_the_difference_after_the_run(tmp_path, module):
    app = module("P = 'a'\nX = 1\ndef answer(q): return q + P + str(X)")
    at = tmp_path / "run"
    limpet.evaluate(ROWS, app.answer, run=at)
    app.P = "b"
    limpet.evaluate(ROWS, app.answer, run=at, on_change="redo")
    before = on_disk(at)["steps"]["workflow"]["before"]
    assert before["parts"].keys() == {"P"}
    limpet.evaluate(ROWS, app.answer, run=at)  # and again, unchanged
    with RunReader(at) as reader:
        [step] = why_on_disk(reader).steps
    assert step.compared == "before"
    assert lines(step.differences) == {"P": ['- "a"', '+ "b"']}


def test_parts_are_kept_of_ten_versions_and_the_digest_of_all(tmp_path, module):
    app = module("N = 0\ndef answer(q): return q + str(N)")
    for number in range(14):
        app.N = number
        limpet.evaluate(ROWS[:1], app.answer, run=tmp_path / "run", on_change="redo")
    versions = json.loads((tmp_path / "run/run.json").read_text(encoding="utf-8"))["functions"]
    assert len(versions) == 14
    assert [bool(parts) for parts in versions.values()] == [False] * 4 + [True] * 10
    app.N = 0  # one of those whose parts are gone: its answer is still known
    assert limpet.evaluate(ROWS[:1], app.answer, run=tmp_path / "run").plan.workflow.kept == 1


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"format": 3, "steps": {}}',
        b'{"format": 2, "steps": 3}',
        b'{"steps": {"workflow": {"parts": [1], "before": 3, "asked": []}}}',
        b'{"steps": {"workflow": {"parts": {"P": {"digest": 3}, "Q": 1}, "left_out": 1}}}',
        b"[" * 100_000,
    ],
)
def test_a_missing_damaged_or_newer_identity_costs_the_lines_and_nothing_else(
    tmp_path, module, content
):
    app, at = module("P = 'a'\ndef answer(q): return q + P"), tmp_path / "run"
    limpet.evaluate(MANY, app.answer, run=at)
    if content is None:
        (at / "identity.json").unlink()
    else:
        (at / "identity.json").write_bytes(content)
    app.P = "b"
    with pytest.raises(limpet.FunctionChangedError, match="P") as caught:
        limpet.evaluate(MANY, app.answer, run=at)
    [one] = caught.value.differences
    assert (one.name, one.why_no_lines) == ("P", "its earlier version is not on disk")
    with RunReader(at) as reader:
        why_on_disk(reader, "1")
    assert limpet.evaluate(MANY, app.answer, run=at, on_change="redo").plan.workflow.calls == len(
        MANY
    )
    assert read_identity(layout_at(at)).steps["workflow"].shown["P"].text == '"b"'


# ---- differences --------------------------------------------------------------------------------


def test_an_edited_prompt_is_shown_by_its_lines(edited):
    found = edited(PARTS, PARTS.replace("Be quick.", "Take your time."))
    assert lines(found) == {
        "PROMPT": ["  Answer in one word.", "- Be quick.", "+ Take your time.", '  """']
    }


def test_an_edited_function_is_shown_without_comments_and_docstrings(edited):
    before = '''
        def answer(q):
            """Say it."""
            # one
            a = q.strip()  # old
            b = a.lower()
            return b
    '''
    after = '''
        def answer(q):
            """Say it otherwise.

            At length.
            """
            # two
            # three
            a = q.strip()  # new
            b = a.upper()
            return b
    '''
    [one] = edited(before, after)
    assert list(one.lines) == [
        "      a = q.strip()  # new",
        "-     b = a.lower()",
        "+     b = a.upper()",
        "      return b",
    ]


def test_a_value_deep_in_a_configuration_is_shown_by_its_line(edited):
    code = """
        CONFIG = {{"models": [{{"name": "small", "settings": {{"temperature": {0}, "seed": 7,
                  "stop": ["one", "two", "three"]}}}}, {{"name": "large", "settings": {{}}}}]}}
        def answer(q): return CONFIG
    """
    [one] = edited(code.format(0.1), code.format(0.9))
    signed = [line.split() for line in one.lines if line[0] in "+-"]
    assert signed == [["-", '"temperature":', "0.1,"], ["+", '"temperature":', "0.9,"]]


def test_what_is_new_and_what_is_no_longer_used_is_said(edited):
    found = edited(
        "OLD = 1\ndef answer(q): return OLD",
        "NEW = 2\ndef helper(q): return NEW\ndef answer(q): return helper(q)",
    )
    assert {one.name: one.change for one in found} == {
        "answer": "changed", "NEW": "new", "helper": "new", "OLD": "no longer used",
    }  # fmt: skip
    assert lines(found)["NEW"] == ["+ 2"]
    assert lines(found)["OLD"] == ["- 1"]


def test_of_a_long_line_the_place_of_the_difference_is_shown(edited):
    code = "P = 'once upon a time ' * 40 + {0!r} + ' and so on' * 40\ndef answer(q): return P"
    [one] = edited(code.format("red"), code.format("blue"))
    assert all(len(line) < 80 for line in one.lines)
    assert "red and so on" in one.lines[0]
    assert "blue and so on" in one.lines[1]


def test_a_difference_behind_the_cut_is_named_as_that(edited):
    code = "P = 'x' * 50_000 + {0!r}\ndef answer(q): return P"
    [one] = edited(code.format("red"), code.format("blue"))
    assert (one.lines, one.why_no_lines) == ((), "the first 20,000 characters are the same")


# ---- the question -------------------------------------------------------------------------------


def test_the_question_says_the_difference_in_a_few_lines(tmp_path, module):
    code = "".join(f"V{n} = 'old {n}'\n" for n in range(9))
    app = module(code + f"def answer(q): return [{', '.join(f'V{n}' for n in range(9))}]")
    at = tmp_path / "run"
    limpet.evaluate(MANY, app.answer, run=at)
    for number in range(9):
        setattr(app, f"V{number}", f"new {number}")
    with pytest.raises(limpet.FunctionChangedError) as caught:
        limpet.evaluate(MANY, app.answer, run=at)
    note = caught.value.__notes__[-1].splitlines()
    assert note[:3] == ["V0", '  - "old 0"', '  + "new 0"']
    assert sum(line.startswith("  ") for line in note) == 8
    assert note[-1].startswith("… and 5 more: limpet why ")
    planned = limpet.plan(MANY, app.answer, run=at).workflow.differences
    assert lines(planned) == lines(caught.value.differences)
    assert len(planned) == 9


def test_a_map_says_the_difference_too(tmp_path, module):
    app = module("P = 'a'\ndef answer(q): return q + P")
    limpet.map(app.answer, ["x"], journal=tmp_path / "m.jsonl")
    app.P = "b"
    with pytest.raises(limpet.FunctionChangedError) as caught:
        limpet.map(app.answer, ["x"], journal=tmp_path / "m.jsonl")
    assert caught.value.__notes__[-1] == 'P\n  - "a"\n  + "b"'


def test_what_a_script_was_asked_about_can_be_seen_afterwards(tmp_path, module):
    app, at = module("P = 'a'\ndef answer(q): return q + P"), tmp_path / "run"
    limpet.evaluate(MANY, app.answer, run=at)
    app.P = "b"
    with pytest.raises(limpet.FunctionChangedError):
        limpet.evaluate(MANY, app.answer, run=at)
    with RunReader(at) as reader:
        why = why_on_disk(reader, "1")
    assert why.looked is False
    [step] = why.steps
    assert step.compared == "asked"
    assert lines(step.differences) == {"P": ['- "a"', '+ "b"']}
    assert [fact.verdict for fact in why.item[0].facts] == ["asks first"]


def test_an_evaluator_that_changed_is_in_the_plan(tmp_path, module):
    app = module(
        "LIMIT = 5\ndef answer(q): return q\ndef short(output): return len(output) < LIMIT"
    )
    limpet.evaluate(ROWS, app.answer, [app.short], run=tmp_path / "run")
    app.LIMIT = 9
    plan = limpet.plan(ROWS, app.answer, [app.short], run=tmp_path / "run")
    assert lines(plan.evaluators[0].differences) == {"LIMIT": ["- 5", "+ 9"]}
    assert plan.workflow.differences == ()


# ---- secrets ------------------------------------------------------------------------------------

SECRETS = {
    "a literal given to a parameter": 'def answer(q): return ask(q, api_key="hunter2-deep")',
    "a local": 'def answer(q):\n    PASSWORD = "hunter2-deep"\n    return ask(q, PASSWORD)',
    "a dict in code": 'def answer(q): return ask(q, {"token": "hunter2-deep"})',
    "a header": 'def answer(q): return ask(q, {"Authorization": "Bearer hunter2-deep"})',
    "a default": 'def answer(q, *, secret="hunter2-deep"): return ask(q, secret)',
    "a key that is set": 'def answer(q):\n    d = {}\n    d["token"] = "hunter2-deep"',
    "a call in between": 'def answer(q): return ask(q, password=str("hunter2-deep"))',
    "a formatted one": 'def answer(q): return ask(q, password=f"hunter2-deep {q}")',
    "one that is compared": 'def answer(q):\n    return q.password == "hunter2-deep"',
    "a comment": 'def answer(q):\n    # api_key = "hunter2-deep"\n    return ask(q)',
    "a value": 'TOKEN = "hunter2-deep"\ndef answer(q): return ask(q, TOKEN)',
    "a value in a value": 'C = {"a": [{"token": "hunter2-deep"}]}\ndef answer(q): return ask(q, C)',
    "an attribute": (
        "class Agent:\n    def __init__(self, token): self.token = token\n"
        '    def ask(self, q): return q\nAGENT = Agent("hunter2-deep")\n'
        "def answer(q): return AGENT.ask(q)"
    ),
    "an address": 'URL = "postgres://me:hunter2-deep@db/x"\ndef answer(q): return ask(q, URL)',
    "a whole module": ('KEY = dict(api_key="hunter2-deep")\ndef answer(q): return globals()[q]'),
    "a class's": 'class A:\n    password = "hunter2-deep"\ndef answer(q): return A.password',
    "a lambda's line": (
        'WAYS = {"a": lambda q: ask(q, token="hunter2-deep"),\n        "b": 1}\n'
        "def answer(q): return WAYS"
    ),
}


@pytest.mark.quick(3)
@pytest.mark.parametrize("code", SECRETS.values(), ids=SECRETS)
def test_no_secret_in_code_or_a_value_is_on_disk_or_in_a_difference(tmp_path, module, code):
    code += "\ndef ask(*given, **named): return str(given)"
    at = tmp_path / "run"
    identities = []
    for number in (1, 2):
        app = module(code + f"\nMORE = {number}\nanswer.more = MORE")
        limpet.map(app.answer, [], journal=at, on_change="redo")
        identities.append(identity_of(app.answer))
    written = (at / "identity.json").read_text(encoding="utf-8")
    assert "hunter2" not in written
    assert "hunter2" not in str(between(*identities))
    assert "answer" in json.loads(written)["steps"]["map"]["parts"]


def test_a_secret_of_the_environment_is_nowhere_in_it(tmp_path, module, monkeypatch):
    monkeypatch.setenv("SERVICE_TOKEN", "postgres-horse-42x")
    app = module(
        "import os\nP = 'say postgres-horse-42x'\n"
        "def answer(q):\n    x = 'postgres-horse-42x'\n    return P + os.environ['SERVICE_TOKEN']"
    )
    limpet.map(app.answer, [], journal=tmp_path / "run")
    written = (tmp_path / "run/identity.json").read_text(encoding="utf-8")
    assert "horse" not in written
    app.P = "tell postgres-horse-42x"
    limpet.map(app.answer, ["a"], journal=tmp_path / "run", on_change="redo")
    app.P = "shout postgres-horse-42x"
    with pytest.raises(limpet.FunctionChangedError) as caught:
        limpet.map(app.answer, ["a"], journal=tmp_path / "run")
    assert "horse" not in str(caught.value.__notes__)
    assert "shout" in str(caught.value.__notes__)
    assert "horse" not in (tmp_path / "run/identity.json").read_text(encoding="utf-8")


def test_a_change_that_is_not_shown_for_a_secret_is_said_to_be_that(edited):
    code = "TOKEN = 'hunter2-{0}'\ndef answer(q): return q + TOKEN"
    [one] = edited(code.format("a"), code.format("b"))
    assert (one.lines, one.why_no_lines) == (
        (), "a value that is not shown: it may be a secret",
    )  # fmt: skip


def test_names_of_variables_and_plain_words_stay_readable():
    code = (
        'client = OpenAI(api_key=os.environ["OPENAI_API_KEY"], model="gpt")\n'
        'ask(stop_token="###", key="id", max_tokens=5, answer_key="B")\n'
    )
    assert without_literals(code) == code
    assert without_settings("tone: mild\nkey: id\n") == "tone: mild\nkey: id\n"
