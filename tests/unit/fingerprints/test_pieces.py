"""A file that is cut into pieces says what it says as a whole."""

import ast
import sysconfig
import textwrap
from collections.abc import Iterable
from pathlib import Path

import pytest

from limpet.fingerprints.code.parsed import Parsed, cut
from limpet.fingerprints.code.statements import assignments

STDLIB = Path(sysconfig.get_path("stdlib"))
FILES = [
    *sorted(STDLIB.glob("[a-m]*.py"))[::4],
    *sorted((STDLIB / "asyncio").glob("*.py")),
    *sorted(Path(__file__).parents[2].rglob("*.py"))[::5],
]


def statements(text: str) -> list[ast.stmt]:
    found = cut(text)
    body = [*ast.parse(found.rest).body]
    for piece in found.pieces:
        body += ast.parse("\n" * (piece.first - 1) + piece.text).body
    return sorted(body, key=lambda one: (one.lineno, one.col_offset))


def dumped(body: Iterable[ast.AST]) -> list[str]:
    return [ast.dump(one, include_attributes=True) for one in body]


@pytest.mark.slow
def test_real_files_say_the_same_in_pieces():
    in_pieces = 0
    for file in FILES:
        text = file.read_text(encoding="utf-8")
        whole = sorted(ast.parse(text).body, key=lambda one: (one.lineno, one.col_offset))
        assert dumped(statements(text)) == dumped(whole), file
        in_pieces += len(cut(text).pieces) > 0
    assert in_pieces > len(FILES) / 2


HARD = {
    "a text that looks like code": '''
        PROMPT = """
        def f():
            pass
        class A:
        """
        def g():
            return """
        x = 1
        def h():
        """
    ''',
    "quotes in comments and in other quotes": """
        # it's \"\"\" not one
        A = '\"\"\"' + "'''"
        def f():
            return '\"\"\"'  # '''
        B = "\\\\"
        def g(): return "\\""
        C = 'it\\'s'
    """,
    "texts that begin with a backslash or hold other quotes": r'''
        PROMPT = """\
        def f():
            it's "quoted" # not a comment
        """
        def g():
            """It's \"""quoted\"""."""
            return "a\
        def h():"
        OTHER = """x""" + """
        class A:
            pass
        """
        def i(): return """\\"""
    ''',
    "brackets that close in the first column": """
        def f(
            a,
        ):
            return [
            1,
        ]
        X = [
            f,
        ]
    """,
    "lines that go on in the first column": """
        def f(): return 1 + \\
        2
        X = f() + \\
        3
        def g():
            return (
        1,
        )
    """,
    "decorators over several lines": """
        @wraps(
            1,
        )
        # in between
        @other
        async def f():
            pass
        @deco
        class A:
            @property
            def a(self): return 1
    """,
    "branches": """
        try:
            import fast
        except ImportError:
            def f(): return 1
        else:
            def f(): return 2
        if f():
            class A: pass
        else:
            A = None
    """,
    "no line at the end": "def f():\n    return 1",
    "one line each": "def f(): return 1\nclass A: pass; x = 1\ny = 2",
}


@pytest.mark.parametrize("kind", HARD)
def test_hard_files_say_the_same_in_pieces(kind):
    text = textwrap.dedent(HARD[kind])
    parsed, whole = Parsed(text), ast.parse(text)
    for node in ast.walk(whole):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            found = [one for _, one in parsed.at_line(first, node.name)]
            assert dumped([node]) == dumped(found)
    assert {*parsed.assignments} == {*assignments(whole.body)}


def test_a_file_with_a_mistake_in_a_function_that_nobody_asks_for_is_still_read():
    parsed = Parsed("def f():\n    return 1\ndef g():\n    return ]\nX = 1\n")
    assert [node.name for _, node in parsed.at_line(1, "f")] == ["f"]
    assert list(parsed.assignments) == ["X"]
    assert parsed.at_line(3, "g") == []
    assert "return ]" in ast.dump(parsed.tree)


@pytest.mark.parametrize(
    ("text", "line", "name"),
    [
        ("def f():\n    return 1\n\n\ndef g():\n    return 2\n", 5, "g"),
        ("@(\n    str\n)\ndef f():\n    return 1\n", 2, "f"),
        ("def \ufb01():\n    return 1\n", 1, "fi"),
        ("def f():\n    return 1\n\n\ndef f():\n    return 2\n", 5, "f"),
    ],
)
def test_a_function_that_was_let_go_is_found_again_and_once(
    text: str, line: int, name: str
) -> None:
    file = Parsed(text)
    ((_, before),) = file.at_line(line, name)
    called = len(file.functions_named(name))
    file.release(line)
    ((_, again),) = file.at_line(line, name)
    assert again is not before
    assert ast.dump(again, include_attributes=True) == ast.dump(before, include_attributes=True)
    assert len(file.functions_named(name)) == called
