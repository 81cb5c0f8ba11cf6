"""A stranger's table of edits, written without a look at the code that it tries."""

from textwrap import dedent

from identity.edits import Edit, app, swap


def project(
    name: str,
    files: dict[str, str],
    old: str,
    new: str,
    *,
    file: str = "app.py",
    entry: str = "app:answer",
) -> Edit:
    """Return an edit of one file of a project with folders."""
    assert old in files[file], name
    before = {one: dedent(text) for one, text in files.items()}
    return Edit(name, before, {file: dedent(files[file].replace(old, new))}, entry=entry)


def value(name: str, before: str, after: str, *, imports: str = "", shown: str = "{X!r}") -> Edit:
    """Return an edit of a global `X` alone, which the answer shows."""
    rest = f"\ndef answer(question):\n    return f'{shown}' + question\n"
    head = imports + "\n" if imports else ""
    return app(name, f"{head}X = {before}\n{rest}", f"{head}X = {after}\n{rest}")


def body(name: str, before: str, after: str, *, head: str = "", **others: str) -> Edit:
    """Return an edit of the body of `answer` alone."""
    texts = [
        f"{dedent(head)}\ndef answer(question):\n" + "".join(f"    {line}\n" for line in lines)
        for lines in (dedent(before).strip().splitlines(), dedent(after).strip().splitlines())
    ]
    return app(name, texts[0], texts[1], **others)


def started(name: str, text: str, *arguments: str) -> Edit:
    """Return no edit: the same files, with one argument and with another."""
    first, second = arguments
    return Edit(name, {"app.py": dedent(text)}, arguments=((first,), (second,)))


def variable(name: str, text: str, before: str | None, after: str | None, **others: str) -> Edit:
    """Return no edit: the same files, with one `MODEL` in the environment and with another."""
    files = {"app.py": dedent(text)} | {f"{one}.py": dedent(text) for one, text in others.items()}
    kept = tuple({} if one is None else {"MODEL": one} for one in (before, after))
    return Edit(name, files, environment=(kept[0], kept[1]))


_VALUES = [
    value("a global 1 becomes 1.0", "1", "1.0"),
    value("a global 1 becomes True", "1", "True"),
    value("a global 0.0 becomes -0.0", "0.0", "-0.0"),
    value("a global nan becomes inf", "float('nan')", "float('inf')"),
    value("a lone surrogate becomes another", r"'\ud800'", r"'\udfff'", shown="{ascii(X)}"),
    value("an accented letter is composed in another way", r"'\u00e9'", r"'e\u0301'"),
    value("an integer with too many digits for str()", "10**6000", "10**6000 + 1", shown="{X % 7}"),
    value(
        "the last character of a very long text", "'x' * 1_000_000 + 'a'", "'x' * 1_000_000 + 'b'"
    ),
    app(
        "one element in the middle of a very long list",
        "X = list(range(200_000))\nX[100_000] = 5\ndef answer(question):\n    return X[100_000]\n",
        "X = list(range(200_000))\nX[100_000] = 6\ndef answer(question):\n    return X[100_000]\n",
    ),
    value("a key of a dict changes its type", "{1: 'a'}", "{True: 'a'}"),
    value("None becomes the text None", "None", "'None'", shown="{X is None}"),
    value("one text becomes two of the same look", """["a', 'b"]""", "['a', 'b']"),
    value("a bracket moves", "(('a',), 'b')", "('a', ('b',))"),
    value("the order of a dict", "{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
    value(
        "the order of an OrderedDict",
        "OrderedDict(a=1, b=2)",
        "OrderedDict(b=2, a=1)",
        imports="from collections import OrderedDict",
    ),
    value(
        "a count in a Counter",
        "Counter(a=1)",
        "Counter(a=2)",
        imports="from collections import Counter",
    ),
    value(
        "the factory of a defaultdict",
        "defaultdict(lambda: 'kind')",
        "defaultdict(lambda: 'rude')",
        imports="from collections import defaultdict",
        shown="{X[0]}",
    ),
    value(
        "the order of the maps in a ChainMap",
        "ChainMap({'a': 1}, {'a': 2})",
        "ChainMap({'a': 2}, {'a': 1})",
        imports="from collections import ChainMap",
        shown='{X["a"]}',
    ),
    value(
        "the length that a deque may have",
        "deque('ab', 2)",
        "deque('ab', 3)",
        imports="from collections import deque",
    ),
    value(
        "what a mapping proxy shows",
        "MappingProxyType({'a': 'kind'})",
        "MappingProxyType({'a': 'rude'})",
        imports="from types import MappingProxyType",
    ),
    value(
        "an attribute of a namespace in a namespace",
        "NS(llm=NS(model='a'))",
        "NS(llm=NS(model='b'))",
        imports="from types import SimpleNamespace as NS",
        shown="{X.llm.model}",
    ),
    value(
        "an element of an array",
        "array('i', [1, 2])",
        "array('i', [1, 3])",
        imports="from array import array",
    ),
    value("bytes become a bytearray", "b'ab'", "bytearray(b'ab')"),
    value(
        "the bytes under a memoryview",
        "memoryview(b'ab')",
        "memoryview(b'ac')",
        shown="{X.tobytes()}",
    ),
    value("an element of a frozenset", "frozenset({'a'})", "frozenset({'b'})"),
    value("the end of a slice", "slice(0, 1)", "slice(0, 2)", shown="{question[X]}"),
    value("the imaginary part of a complex number", "1 + 0j", "1 + 1j"),
    value(
        "the zeros at the end of a Decimal",
        "Decimal('1.0')",
        "Decimal('1.00')",
        imports="from decimal import Decimal",
    ),
    value(
        "a time gets a zone",
        "datetime(2024, 1, 1)",
        "datetime(2024, 1, 1, tzinfo=timezone.utc)",
        imports="from datetime import datetime, timezone",
        shown="{X}",
    ),
    value("a timedelta", "timedelta(1)", "timedelta(2)", imports="from datetime import timedelta"),
    value(
        "a UUID that is written out", "UUID(int=1)", "UUID(int=2)", imports="from uuid import UUID"
    ),
    value(
        "a flag of a pattern",
        "re.compile('A')",
        "re.compile('A', re.I)",
        imports="import re",
        shown='{X.findall("aA")}',
    ),
    value(
        "an element of an array of numpy",
        "np.array([1, 2])",
        "np.array([1, 3])",
        imports="import numpy as np",
    ),
    app(
        "one element of a large array of numpy",
        "import numpy as np\nX = np.zeros(5000)\nX[2500] = 1\n"
        "def answer(question):\n    return str(X[2500])\n",
        "import numpy as np\nX = np.zeros(5000)\nX[2500] = 2\n"
        "def answer(question):\n    return str(X[2500])\n",
    ),
    value(
        "the type of the numbers of numpy",
        "np.float32(0.1)",
        "np.float64(0.1)",
        imports="import numpy as np",
    ),
    value("a builtin function as a value", "max", "min", shown="{X(question)}"),
    value("a method of str as a value", "str.upper", "str.lower", shown="{X(question)}"),
    value(
        "a function of operator as a value",
        "operator.add",
        "operator.mul",
        imports="import operator",
        shown="{X(2, 3)}",
    ),
    value(
        "the argument of itemgetter",
        "itemgetter(0)",
        "itemgetter(-1)",
        imports="from operator import itemgetter",
        shown='{X("ab")}',
    ),
    value(
        "the argument of methodcaller",
        "methodcaller('upper')",
        "methodcaller('lower')",
        imports="from operator import methodcaller",
        shown="{X(question)}",
    ),
    value("the text behind a bound join", "', '.join", "'; '.join", shown="{X(question)}"),
    value(
        "the dict behind a bound get", "{'a': 'kind'}.get", "{'a': 'rude'}.get", shown='{X("a")}'
    ),
    value(
        "the pattern behind a bound sub",
        "re.compile('a').sub",
        "re.compile('b').sub",
        imports="import re",
        shown='{X("-", question)}',
    ),
    value("a type as a value", "int", "float", shown='{X("1")}'),
    value(
        "the choices of a Literal that the prompt lists",
        "Literal['good', 'bad']",
        "Literal['good', 'poor']",
        imports="from typing import Literal, get_args",
        shown="{get_args(X)}",
    ),
    value(
        "the start of a count",
        "itertools.count(1)",
        "itertools.count(2)",
        imports="import itertools",
        shown="{next(X)}",
    ),
    value(
        "what is cycled through",
        "itertools.cycle('ab')",
        "itertools.cycle('cd')",
        imports="import itertools",
        shown="{next(X)}",
    ),
    value("an iterator over a list", "iter(['a', 'b'])", "iter(['c', 'b'])", shown="{next(X)}"),
    value(
        "a generator that waits",
        "(one for one in ['a', 'b'])",
        "(one + '!' for one in ['a', 'b'])",
        shown="{next(X)}",
    ),
    value(
        "a string.Template",
        "Template('be kind, $name')",
        "Template('be rude, $name')",
        imports="from string import Template",
        shown="{X.substitute(name=question)}",
    ),
    value(
        "the return value of a mock",
        "Mock(return_value='kind')",
        "Mock(return_value='rude')",
        imports="from unittest.mock import Mock",
        shown="{X()}",
    ),
    value(
        "a prompt in a dict in a list in a tuple",
        "({'a': [{'system': 'kind'}]},)",
        "({'a': [{'system': 'rude'}]},)",
    ),
    app(
        "a text at the bottom of a very deep list",
        "X = 'kind'\nfor _ in range(5000):\n    X = [X]\n"
        "def answer(question):\n    one = X\n"
        "    while isinstance(one, list):\n        one = one[0]\n"
        "    return one + question\n",
        "X = 'rude'\nfor _ in range(5000):\n    X = [X]\n"
        "def answer(question):\n    one = X\n"
        "    while isinstance(one, list):\n        one = one[0]\n"
        "    return one + question\n",
    ),
    app(
        "two names for one list become two lists",
        "ONE = []\nX = [ONE, ONE]\ndef answer(question):\n"
        "    X[0].append(question)\n    return len(X[1])\n",
        "ONE = []\nX = [ONE, []]\ndef answer(question):\n"
        "    X[0].append(question)\n    return len(X[1])\n",
    ),
    app(
        "a cycle closes elsewhere",
        "A = ['a']\nB = ['b', A]\nA.append(B)\ndef answer(question):\n    return A[1][1][0]\n",
        "A = ['a']\nB = ['b', A]\nA.append(B)\nB[1] = B\n"
        "def answer(question):\n    return A[1][1][0]\n",
    ),
]

_BODIES = [
    body("a constant 0.0 becomes -0.0 in the code", "return f'{0.0}'", "return f'{-0.0}'"),
    body(
        "a constant tuple of equal numbers of other types",
        "return f'{(1, 2)}'",
        "return f'{(True, 2)}'",
    ),
    body(
        "a constant 1 becomes 1.0 in a nested lambda",
        "return (lambda: 1)()",
        "return (lambda: 1.0)()",
    ),
    body("the conversion in an f-string", "return f'{question!s}'", "return f'{question!r}'"),
    body("the width in an f-string", "return f'{question:>9}'", "return f'{question:<9}'"),
    body(
        "spaces inside a prompt of several lines",
        'return """be\n  kind""" + question',
        'return """be\n    kind""" + question',
    ),
    body(
        "what looks like a comment inside a text",
        "return 'a # one' + question",
        "return 'a # two' + question",
    ),
    body(
        "the case of a match statement",
        """
        match question.split():
            case [one]:
                return one
            case [one, *others]:
                return others
        """,
        """
        match question.split():
            case [one]:
                return one
            case [*others, one]:
                return others
        """,
    ),
    body(
        "the key in a mapping pattern",
        "match {'role': question}:\n    case {'role': one}:\n        return one",
        "match {'role': question}:\n    case {'rule': one}:\n        return one",
    ),
    body(
        "the type that is caught",
        "try:\n    return int(question)\nexcept ValueError:\n    return 0",
        "try:\n    return int(question)\nexcept KeyError:\n    return 0",
    ),
    body("the message of an error", "raise ValueError('kind')", "raise ValueError('rude')"),
    body(
        "a walrus takes the other operand",
        "if (size := len(question)) > 2:\n    return size\nreturn 0",
        "if size := (len(question) > 2):\n    return size\nreturn 0",
    ),
    body(
        "a star moves",
        "first, *rest = 'abc'\nreturn str(rest)",
        "*first, rest = 'abc'\nreturn str(rest)",
    ),
    body(
        "the condition of a comprehension",
        "return [one for one in question if one > 'b']",
        "return [one for one in question if one < 'b']",
    ),
    body(
        "a list becomes a generator",
        "return str(type([one for one in question]))",
        "return str(type((one for one in question)))",
    ),
    body("and becomes or", "return question and 'a'", "return question or 'a'"),
    body(
        "the operands of a subtraction change places",
        "return len(question) - 7",
        "return 7 - len(question)",
    ),
    body("a function becomes a generator", "return [question]", "yield question"),
    body(
        "a local hid a global and no longer does",
        "SYSTEM = 'rude'\nreturn SYSTEM + question",
        "return SYSTEM + question",
        head="SYSTEM = 'kind'",
    ),
    body(
        "a global is written under a global statement",
        "global SYSTEM\nSYSTEM = question\nreturn show()",
        "SYSTEM = question\nreturn show()",
        head="SYSTEM = 'kind'\ndef show():\n    return SYSTEM\n",
    ),
    body(
        "a nonlocal statement goes",
        "count = 0\ndef more():\n    nonlocal count\n    count = 1\nmore()\nreturn count",
        "count = 0\ndef more():\n    count = 1\nmore()\nreturn count",
    ),
    body(
        "the name of a local that a template takes from locals()",
        "role = 'kind'\nreturn '{role}'.format_map(locals())",
        "part = 'kind'\nreturn '{role}'.format_map(locals())",
    ),
    body(
        "the name of a local that an f-string shows with =",
        "role = 'kind'\nreturn f'{role=}'",
        "part = 'kind'\nreturn f'{part=}'",
    ),
    body(
        "the name of a local that eval reads",
        "role = 'kind'\nreturn eval('role')",
        "part = 'kind'\nreturn eval('role')",
        head="role = 'rude'",
    ),
    body(
        "the name of a local that a helper reads from the frame",
        "role = 'kind'\nreturn fill('{role}')",
        "part = 'kind'\nreturn fill('{role}')",
        head="import sys\ndef fill(text):\n    return text.format_map(sys._getframe(1).f_locals)\n",
    ),
]

_SYSTEM = 'SYSTEM = "be kind"\n'

_FUNCTIONS = [
    swap(
        "the second of two lambdas in the defaults",
        """
        def answer(question, *, before=lambda text: text + "1", after=lambda text: text + "2"):
            return after(before(question))
        """,
        '+ "2"',
        '+ "3"',
    ),
    swap(
        "the values that a loop puts into the defaults of lambdas",
        """
        STEPS = [lambda text, n=n: text * n for n in (1, 2, 3)]

        def answer(question):
            return "".join(step(question) for step in STEPS)
        """,
        "(1, 2, 3)",
        "(1, 2, 4)",
    ),
    swap(
        "the variable of a loop that closures share",
        """
        def steps():
            made = []
            for suffix in ("a", "b"):
                def step(text):
                    return text + suffix
                made.append(step)
            return made

        STEPS = steps()

        def answer(question):
            return STEPS[0](question)
        """,
        '("a", "b")',
        '("a", "c")',
    ),
    swap(
        "a default that a global had when the function was made",
        """
        SYSTEM = "be kind"

        def answer(question, *, system=SYSTEM):
            return system + question

        SYSTEM = "be quiet"
        """,
        "be kind",
        "be rude",
    ),
    started(
        "the defaults of a function are set from outside",
        """
        import sys

        def answer(question, model=""):
            return model + question

        answer.__defaults__ = (sys.argv[1],)
        """,
        "gpt-1",
        "gpt-2",
    ),
    started(
        "the keyword defaults of a function are set from outside",
        """
        import sys

        def helper(question, *, model=""):
            return model + question

        helper.__kwdefaults__["model"] = sys.argv[1]

        def answer(question):
            return helper(question)
        """,
        "gpt-1",
        "gpt-2",
    ),
    started(
        "the code of a function is put in from another",
        """
        import sys

        def kind(question):
            return "kind" + question

        def rude(question):
            return "rude" + question

        def answer(question):
            return question

        answer.__code__ = globals()[sys.argv[1]].__code__
        """,
        "kind",
        "rude",
    ),
    swap(
        "a function that exec made",
        '''
        SOURCE = """
        def helper(text):
            return text + "1"
        """
        exec(__import__("textwrap").dedent(SOURCE))

        def answer(question):
            return helper(question)
        ''',
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a global that only the text for eval names",
        """
        SYSTEM = "be kind"

        def answer(question):
            return eval("SYSTEM + question")
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a global that the text for exec in a helper names",
        """
        from runner import run

        SYSTEM = "be kind"
        CODE = "out = SYSTEM + question"

        def answer(question):
            return run(CODE, question)
        """,
        "be kind",
        "be rude",
        runner="""
        import sys

        def run(code, question):
            space = {"question": question, **vars(sys.modules["app"])}
            space["question"] = question
            exec(code, space)
            return space["out"]
        """,
    ),
    swap(
        "the middle one of three decorators",
        """
        import functools

        def tagged(tag):
            def around(function):
                @functools.wraps(function)
                def wrapper(text):
                    return tag + function(text)
                return wrapper
            return around

        @tagged("a")
        @tagged("b")
        @tagged("c")
        def answer(question):
            return question
        """,
        '@tagged("b")',
        '@tagged("d")',
    ),
    swap(
        "the order of two decorators",
        """
        def loud(function):
            return lambda text: function(text).upper()

        def marked(function):
            return lambda text: function(text) + "x"

        @loud
        @marked
        def answer(question):
            return question
        """,
        "@loud\n        @marked",
        "@marked\n        @loud",
    ),
    swap(
        "a function under a decorator that leaves no trace of it",
        """
        def quiet(function):
            kept = {"inner": [function]}
            def wrapper(*given):
                return kept["inner"][0](*given)
            return wrapper

        @quiet
        def answer(question):
            return question + "1"
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a function under a decorator that is a class",
        """
        class tool:
            def __init__(self, function):
                self.function = function

            def __call__(self, *given):
                return self.function(*given)

        @tool
        def answer(question):
            return question + "1"
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "the body of a decorator that is a class with arguments",
        """
        import functools

        class tool:
            def __init__(self, name):
                self.name = name

            def __call__(self, function):
                @functools.wraps(function)
                def wrapper(*given):
                    return function(*given) + self.name
                return wrapper

        @tool("search")
        def answer(question):
            return question
        """,
        "function(*given) + self.name",
        "self.name + function(*given)",
    ),
    swap(
        "the body of a wrapper that claims to be another function",
        """
        import functools

        def plain(question):
            return question

        def make():
            @functools.wraps(plain)
            def wrapper(question):
                return question + "1"
            return wrapper

        answer = make()
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a function under a decorator of wrapt",
        """
        import wrapt

        @wrapt.decorator
        def traced(wrapped, instance, given, named):
            return wrapped(*given, **named) + "1"

        @traced
        def answer(question):
            return question
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "an implementation that is registered with singledispatch",
        """
        import functools

        @functools.singledispatch
        def show(thing):
            return "thing"

        @show.register
        def _(thing: str):
            return "text"

        @show.register
        def _(thing: int):
            return "number"

        def answer(question):
            return show(question)
        """,
        '"text"',
        '"words"',
    ),
    swap(
        "an implementation that another module registers with singledispatch",
        """
        import shows
        from base import show

        def answer(question):
            return show(question)
        """,
        '"text"',
        '"words"',
        file="shows.py",
        base="""
        import functools

        @functools.singledispatch
        def show(thing):
            return "thing"
        """,
        shows="""
        from base import show

        @show.register(str)
        def show_text(thing):
            return "text"
        """,
    ),
    swap(
        "an implementation of a singledispatchmethod",
        """
        import functools

        class Agent:
            @functools.singledispatchmethod
            def show(self, thing):
                return "thing"

            @show.register
            def _(self, thing: str):
                return "text"

        def answer(question):
            return Agent().show(question)
        """,
        '"text"',
        '"words"',
    ),
    swap(
        "the argument of a partialmethod",
        """
        import functools

        class Agent:
            def say(self, tone, text):
                return tone + text

            kindly = functools.partialmethod(say, "kind: ")

        def answer(question):
            return Agent().kindly(question)
        """,
        '"kind: "',
        '"rude: "',
    ),
    swap(
        "a function that reduce is given",
        """
        from functools import reduce

        def merge(one, other):
            return one + other

        def answer(question):
            return reduce(merge, ["a", "b", question])
        """,
        "one + other",
        "other + one",
    ),
    swap(
        "a function that sorts",
        """
        def rank(word):
            return len(word)

        def answer(question):
            return sorted(["bbb", "a", *question.split()], key=rank)
        """,
        "return len(word)",
        "return -len(word)",
    ),
    swap(
        "a function that is mapped, from another module under another name",
        """
        from shapes import clean as tidy

        def answer(question):
            return list(map(tidy, question.split()))
        """,
        "upper",
        "title",
        file="shapes.py",
        shapes="def clean(word):\n    return word.upper()\n",
    ),
    swap(
        "the body of a context manager",
        """
        from contextlib import contextmanager

        LOG = []

        @contextmanager
        def traced(name):
            LOG.append(name)
            yield "kind"
            LOG.pop()

        def answer(question):
            with traced(question) as tone:
                return tone + question
        """,
        'yield "kind"',
        'yield "rude"',
    ),
    swap(
        "a callback on an ExitStack",
        """
        from contextlib import ExitStack

        def close(out):
            out.append("closed")

        def answer(question):
            out = [question]
            with ExitStack() as stack:
                stack.callback(close, out)
            return out
        """,
        '"closed"',
        '"shut"',
    ),
    swap(
        "an asynchronous generator that an asynchronous function reads",
        """
        async def words(text):
            for word in text.split():
                yield word + "."

        async def answer(question):
            return [word async for word in words(question)]
        """,
        'word + "."',
        'word + "!"',
    ),
    swap(
        "one of the tools that are gathered",
        """
        import asyncio

        async def search(text):
            return "found " + text

        async def read(text):
            return "read " + text

        async def answer(question):
            return await asyncio.gather(*(tool(question) for tool in [search, read]))
        """,
        '"read "',
        '"saw "',
    ),
    swap(
        "the name of a tool that the prompt shows",
        """
        def search(text):
            return text

        TOOLS = [search]

        def answer(question):
            return ", ".join(tool.__name__ for tool in TOOLS) + question
        """,
        "search",
        "look_up",
    ),
    swap(
        "a type hint from which a schema is made",
        """
        import typing

        def search(text: str, limit: int):
            return text

        def schema(tool):
            return {name: one.__name__ for name, one in typing.get_type_hints(tool).items()}

        def answer(question):
            return str(schema(search)) + question
        """,
        "limit: int",
        "limit: float",
    ),
    swap(
        "a type hint that a decorator reads",
        """
        import inspect

        TOOLS = {}

        def tool(function):
            TOOLS[function.__name__] = str(inspect.signature(function))
            return function

        @tool
        def search(text: str) -> str:
            return text

        def answer(question):
            return str(TOOLS) + question
        """,
        "(text: str)",
        "(text: bytes)",
    ),
    swap(
        "the description of a parameter in Annotated",
        """
        from typing import Annotated, get_type_hints

        def search(text: Annotated[str, "what to find"]):
            return text

        TOOLS = [search]

        def answer(question):
            return [get_type_hints(one, include_extras=True)["text"].__metadata__ for one in TOOLS]
        """,
        "what to find",
        "what to look for",
    ),
    swap(
        "the source of a function as part of a prompt",
        """
        import inspect

        def example(text):
            # count the words
            return len(text.split())

        def answer(question):
            return inspect.getsource(example) + question
        """,
        "# count the words",
        "# count the parts",
    ),
    swap(
        "a docstring that inspect.getdoc reads",
        '''
        from inspect import getdoc

        def search(text):
            """Search for it."""

        TOOLS = {"search": search}

        def answer(question):
            return getdoc(TOOLS["search"]) + question
        ''',
        "Search for it.",
        "Look for it.",
    ),
    swap(
        "the docstring of the module as a prompt",
        '''
        """Be kind."""

        def answer(question):
            return __doc__ + question
        ''',
        "Be kind.",
        "Be rude.",
    ),
    swap(
        "the docstring of a class that a base class reads",
        '''
        from base import Signature

        class Summarize(Signature):
            """Sum it up."""

        def answer(question):
            return Summarize().prompt() + question
        ''',
        "Sum it up.",
        "Make it short.",
        base="class Signature:\n    def prompt(self):\n        return type(self).__doc__\n",
    ),
    swap(
        "a predicate that tenacity is given",
        """
        import tenacity

        COUNT = []

        def bad(value):
            return len(COUNT) < 2

        @tenacity.retry(retry=tenacity.retry_if_result(bad))
        def answer(question):
            COUNT.append(question)
            return len(COUNT)
        """,
        "len(COUNT) < 2",
        "len(COUNT) < 3",
    ),
    swap(
        "the number of attempts that tenacity makes",
        """
        import tenacity

        COUNT = []

        def given_up(state):
            return len(COUNT)

        @tenacity.retry(stop=tenacity.stop_after_attempt(2), retry_error_callback=given_up)
        def answer(question):
            COUNT.append(question)
            raise ValueError
        """,
        "attempt(2)",
        "attempt(3)",
    ),
    swap(
        "a function that another module puts into a third",
        """
        import lib
        import patches

        def answer(question):
            return lib.helper(question)
        """,
        '+ "1"',
        '+ "2"',
        file="patches.py",
        lib="def helper(text):\n    return text\n",
        patches="""
        import lib

        def mine(text):
            return text + "1"

        lib.helper = mine
        """,
    ),
    swap(
        "a function that mock.patch has put in",
        """
        from unittest import mock

        import lib

        def mine(text):
            return text + "1"

        mock.patch("lib.helper", mine).start()

        def answer(question):
            return lib.run(question)
        """,
        '+ "1"',
        '+ "2"',
        lib="def helper(text):\n    return text\n\ndef run(text):\n    return helper(text)\n",
    ),
    swap(
        "a function that another module adds to the builtins",
        """
        import extras

        def answer(question):
            return helper(question)
        """,
        '+ "1"',
        '+ "2"',
        file="extras.py",
        extras="""
        import builtins

        def mine(text):
            return text + "1"

        builtins.helper = mine
        """,
    ),
    swap(
        "the order in which tools are registered",
        """
        TOOLS = []

        @TOOLS.append
        def one(text):
            return "1" + text

        @TOOLS.append
        def two(text):
            return "2" + text

        def answer(question):
            for tool in TOOLS:
                question = tool(question)
            return question
        """,
        """
        @TOOLS.append
        def one(text):
            return "1" + text

        @TOOLS.append
        def two(text):
            return "2" + text
""",
        """
        @TOOLS.append
        def two(text):
            return "2" + text

        @TOOLS.append
        def one(text):
            return "1" + text
""",
    ),
    swap(
        "a function of the same name is put below the first",
        """
        def helper(text):
            return text + "1"

        def answer(question):
            return helper(question)
        """,
        "def answer",
        'def helper(text):\n            return text + "2"\n\n        def answer',
    ),
    swap(
        "a tool that is found because its name begins so",
        """
        def tool_search(text):
            return "found " + text

        def answer(question):
            return [one(question) for name, one in globals().items() if name.startswith("tool_")]
        """,
        "def answer",
        'def tool_read(text):\n            return "read " + text\n\n        def answer',
    ),
    swap(
        "a function in a container in a container",
        """
        def search(text):
            return text + "1"

        AGENT = {"name": "a", "steps": [("first", {"tools": (search,)})]}

        def answer(question):
            return AGENT["steps"][0][1]["tools"][0](question)
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a function that a lambda in a list calls",
        """
        def search(text):
            return text + "1"

        STEPS = [lambda text: search(text), lambda text: text]

        def answer(question):
            return STEPS[0](question)
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a function made from code by hand",
        """
        import types

        def search(text, suffix="a"):
            return text + suffix

        made = types.FunctionType(search.__code__, globals(), "made", ("b",))

        def answer(question):
            return made(question)
        """,
        '("b",)',
        '("c",)',
    ),
    swap(
        "the text that str.format filled in at import",
        """
        NAME = "Ada"
        PROMPT = "You are {name}. {{question}}".format(name=NAME)

        def answer(question):
            return PROMPT.format(question=question)
        """,
        '"Ada"',
        '"Bob"',
    ),
]

_CLASSES = [
    swap(
        "a method that is put on a class afterwards",
        """
        class Agent:
            def run(self, text):
                return text

        def run_twice(self, text):
            return text * 2

        Agent.run = run_twice

        def answer(question):
            return Agent().run(question)
        """,
        "text * 2",
        "text * 3",
    ),
    swap(
        "a method is deleted from a class, so that its parent's counts",
        """
        class Base:
            def run(self, text):
                return text

        class Agent(Base):
            def run(self, text):
                return text * 2

        CHANGED = True

        def answer(question):
            return Agent().run(question)
        """,
        "CHANGED = True",
        "del Agent.run",
    ),
    swap(
        "an attribute that an instance gets afterwards",
        """
        class Agent:
            system = "be quiet"

        agent = Agent()
        agent.system = "be kind"

        def answer(question):
            return agent.system + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a function that an instance gets in the place of a method",
        """
        class Agent:
            def run(self, text):
                return text

        agent = Agent()
        agent.run = lambda text: text + "1"

        def answer(question):
            return agent.run(question)
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "the instance behind a bound method in a variable",
        """
        class Agent:
            def __init__(self, system):
                self.system = system

            def run(self, text):
                return self.system + text

        ask = Agent("be kind").run

        def answer(question):
            return ask(question)
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "the order of two parents",
        """
        class Kind:
            tone = "kind"

        class Rude:
            tone = "rude"

        class Agent(Kind, Rude):
            def run(self, text):
                return self.tone + text

        def answer(question):
            return Agent().run(question)
        """,
        "(Kind, Rude)",
        "(Rude, Kind)",
    ),
    project(
        "a mixin two packages away, behind relative imports",
        {
            "app.py": "from agents import Agent\n\nanswer = Agent()\n",
            "agents/__init__.py": "from .main import Agent\n",
            "agents/main.py": "from .parts.mixins import Loud\n\nclass Agent(Loud):\n    pass\n",
            "agents/parts/__init__.py": "",
            "agents/parts/mixins.py": "from ..texts import SYSTEM\n\nclass Loud:\n"
            "    def __call__(self, text):\n        return SYSTEM + text\n",
            "agents/texts.py": _SYSTEM,
        },
        "be kind",
        "be rude",
        file="agents/texts.py",
    ),
    swap(
        "__init_subclass__ of a base class",
        """
        class Base:
            def __init_subclass__(cls, tone="", **named):
                cls.tone = tone + "1"

        class Agent(Base, tone="kind"):
            pass

        def answer(question):
            return Agent.tone + question
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a subclass that registers itself and that nobody names",
        """
        class Tool:
            known = []

            def __init_subclass__(cls):
                Tool.known.append(cls)

        class Search(Tool):
            def run(self, text):
                return text + "1"

        def answer(question):
            return [tool().run(question) for tool in Tool.known]
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a subclass that is found by __subclasses__ alone",
        """
        class Tool:
            pass

        class Search(Tool):
            def run(self, text):
                return text + "1"

        def answer(question):
            return [tool().run(question) for tool in Tool.__subclasses__()]
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a new subclass in another module, found by __subclasses__ alone",
        """
        import tools
        from base import Tool

        def answer(question):
            return [tool.__name__ for tool in Tool.__subclasses__()]
        """,
        "class Search(Tool):\n    pass\n",
        "class Search(Tool):\n    pass\n\nclass Read(Tool):\n    pass\n",
        file="tools.py",
        base="class Tool:\n    pass\n",
        tools="from base import Tool\n\nclass Search(Tool):\n    pass\n",
    ),
    swap(
        "the order of methods that are listed as steps",
        """
        class Flow:
            def step_a(self, text):
                return text + "a"

            def step_b(self, text):
                return text + "b"

        def answer(question):
            for name, step in vars(Flow).items():
                if name.startswith("step_"):
                    question = step(None, question)
            return question
        """,
        """
            def step_a(self, text):
                return text + "a"

            def step_b(self, text):
                return text + "b"
""",
        """
            def step_b(self, text):
                return text + "b"

            def step_a(self, text):
                return text + "a"
""",
    ),
    swap(
        "__set_name__ of a descriptor",
        """
        class Field:
            def __set_name__(self, owner, name):
                self.name = name + "1"

            def __get__(self, one, owner):
                return self.name

        class Agent:
            tone = Field()

        def answer(question):
            return Agent().tone + question
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "the state of a descriptor",
        """
        class Field:
            def __init__(self, default):
                self.default = default

            def __get__(self, one, owner):
                return self.default

        class Agent:
            tone = Field("kind")
            other = Field("calm")

        def answer(question):
            return Agent().other + question
        """,
        '"calm"',
        '"cold"',
    ),
    swap(
        "__getattr__ of a class",
        """
        class Prompts:
            def __getattr__(self, name):
                return "kind " + name

        PROMPTS = Prompts()

        def answer(question):
            return PROMPTS.system + question
        """,
        '"kind "',
        '"rude "',
    ),
    swap(
        "a proxy that has every attribute there is",
        """
        class Chain:
            def __init__(self, path):
                self.path = path

            def __getattr__(self, name):
                return Chain(self.path + "." + name)

            def __call__(self, text):
                return self.path + text

        api = Chain("v1")

        def answer(question):
            return api.chat.complete(question)
        """,
        '"v1"',
        '"v2"',
    ),
    swap(
        "an instance whose properties fail when they are looked at",
        """
        class Agent:
            def __init__(self, system):
                self.system = system

            @property
            def client(self):
                raise SystemExit("no network here")

            def __eq__(self, other):
                raise RuntimeError("not to be compared")

            __hash__ = None

            def __repr__(self):
                raise RuntimeError("not to be shown")

        agent = Agent("be kind")

        def answer(question):
            return agent.system + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "an instance that hides its state from pickle, copy and repr",
        """
        class Agent:
            def __init__(self, system):
                self.system = system

            def __getstate__(self):
                return {}

            def __reduce__(self):
                return (Agent, ("",))

            def __repr__(self):
                return "Agent()"

            def __eq__(self, other):
                return True

            def __hash__(self):
                return 1

        agent = Agent("be kind")

        def answer(question):
            return agent.system + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "one of two instances that call themselves equal",
        """
        class Agent:
            def __init__(self, system):
                self.system = system

            def __eq__(self, other):
                return True

            def __hash__(self):
                return 1

        AGENTS = [Agent("be calm"), Agent("be kind")]

        def answer(question):
            return AGENTS[1].system + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a slot",
        """
        class Agent:
            __slots__ = ("system", "__weakref__")

            def __init__(self, system):
                self.system = system

        agent = Agent("be kind")

        def answer(question):
            return agent.system + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a private slot of a parent",
        """
        class Base:
            __slots__ = ("__system",)

            def __init__(self, system):
                self.__system = system

            def run(self, text):
                return self.__system + text

        class Agent(Base):
            __slots__ = ("name",)

        agent = Agent("be kind")

        def answer(question):
            return agent.run(question)
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a method of a subclass of dict",
        """
        class Prompts(dict):
            def __missing__(self, name):
                return "kind " + name

        PROMPTS = Prompts(a="b")

        def answer(question):
            return PROMPTS[question]
        """,
        '"kind "',
        '"rude "',
    ),
    swap(
        "an attribute of an instance of a subclass of dict",
        """
        class Prompts(dict):
            pass

        PROMPTS = Prompts(a="b")
        PROMPTS.default = "be kind"

        def answer(question):
            return PROMPTS.get(question, PROMPTS.default)
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "an attribute of an instance of a subclass of str",
        """
        class Prompt(str):
            role = "none"

        PROMPT = Prompt("hello")
        PROMPT.role = "system"

        def answer(question):
            return PROMPT.role + PROMPT + question
        """,
        '"system"',
        '"user"',
    ),
    swap(
        "an element of a subclass of list that is never at its end",
        """
        import itertools

        class Endless(list):
            def __iter__(self):
                return itertools.count()

            def __len__(self):
                raise RuntimeError("endless")

        X = Endless(["be kind"])

        def answer(question):
            return X[0] + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "an attribute of an error that is kept",
        """
        class Stop(Exception):
            pass

        STOP = Stop("kind")

        def answer(question):
            return str(STOP) + question
        """,
        '"kind"',
        '"rude"',
    ),
    swap(
        "the format of a prompt that its class defines",
        """
        class Prompt:
            def __init__(self, text):
                self.text = text

            def __format__(self, how):
                return self.text + "1"

        PROMPT = Prompt("be kind")

        def answer(question):
            return f"{PROMPT}{question}"
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "an operator between the parts of a chain",
        """
        class Step:
            def __init__(self, run):
                self.run = run

            def __or__(self, other):
                return Step(lambda text: other.run(self.run(text)))

        chain = Step(lambda text: text + "a") | Step(lambda text: text + "b")

        def answer(question):
            return chain.run(question)
        """,
        "other.run(self.run(text))",
        "self.run(other.run(text))",
    ),
    swap(
        "the second lambda of a chain",
        """
        class Step:
            def __init__(self, run):
                self.run = run

            def __or__(self, other):
                return Step(lambda text: other.run(self.run(text)))

        chain = Step(lambda text: text + "a") | Step(lambda text: text + "b")

        def answer(question):
            return chain.run(question)
        """,
        '+ "b"',
        '+ "c"',
    ),
    swap(
        "a handler that is found by a computed name",
        """
        class Agent:
            def on_text(self, text):
                return text + "1"

            def run(self, kind, text):
                return getattr(self, "on_" + kind)(text)

        agent = Agent()

        def answer(question):
            return agent.run("text", question)
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a method of a class that type() made",
        """
        class Base:
            def run(self, text):
                return self.fill(text)

        Agent = type("Agent", (Base,), {"fill": lambda self, text: text + "1", "name": "a"})

        def answer(question):
            return Agent().run(question)
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "the second of two classes that one factory made",
        """
        def make(system):
            class Agent:
                def run(self, text):
                    return system + text
            return Agent

        First, Second = make("one "), make("two ")

        def answer(question):
            return First().run(Second().run(question))
        """,
        '"two "',
        '"three "',
    ),
    started(
        "which of two classes of one name was defined",
        """
        import sys

        if sys.argv[1] == "kind":
            class Agent:
                def run(self, text):
                    return "kind " + text
        else:
            class Agent:
                def run(self, text):
                    return "rude " + text

        def answer(question):
            return Agent().run(question)
        """,
        "kind",
        "rude",
    ),
    swap(
        "what a metaclass puts in when it makes a class",
        """
        class Meta(type):
            def __new__(meta, name, bases, space):
                space["tone"] = "kind " + name
                return super().__new__(meta, name, bases, space)

        class Agent(metaclass=Meta):
            pass

        def answer(question):
            return Agent.tone + question
        """,
        '"kind "',
        '"rude "',
    ),
    swap(
        "__class_getitem__",
        """
        class Prompt:
            def __class_getitem__(cls, name):
                return "kind " + name

        def answer(question):
            return Prompt["a"] + question
        """,
        '"kind "',
        '"rude "',
    ),
    swap(
        "the body of a cached property",
        """
        import functools

        class Agent:
            @functools.cached_property
            def system(self):
                return "be kind"

        agent = Agent()

        def answer(question):
            return agent.system + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "the getter of a property that is put together by a call",
        """
        def field(name):
            def get(self):
                return self.data[name]
            return property(get)

        class Agent:
            data = {"a": "1", "b": "2"}
            one = field("a")
            two = field("b")

        def answer(question):
            return Agent().two + question
        """,
        'field("b")',
        'field("a")',
    ),
    swap(
        "the default method of a protocol",
        """
        from typing import Protocol

        class Tool(Protocol):
            def run(self, text):
                return text + "1"

        class Search(Tool):
            pass

        def answer(question):
            return Search().run(question)
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a method of a generic class under an abstract one",
        """
        from abc import ABC, abstractmethod
        from typing import Generic, TypeVar

        T = TypeVar("T")

        class Step(ABC, Generic[T]):
            @abstractmethod
            def one(self, text): ...

            def run(self, text):
                return self.one(text) + "1"

        class Loud(Step[str]):
            def one(self, text):
                return text.upper()

        def answer(question):
            return Loud().run(question)
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a class that joins an abstract one by register",
        """
        from abc import ABC

        class Tool(ABC):
            pass

        class Search:
            pass

        Tool.register(Search)

        def answer(question):
            return str(isinstance(Search(), Tool)) + question
        """,
        "Tool.register(Search)",
        "REGISTERED = False",
    ),
    swap(
        "a key of a typed dict from which a schema is made",
        """
        from typing import TypedDict

        class Reply(TypedDict):
            text: str
            score: int

        def answer(question):
            return str(sorted(Reply.__annotations__)) + question
        """,
        "score: int",
        "grade: int",
    ),
    swap(
        "a hint that takes a field out of a dataclass",
        """
        from dataclasses import asdict, dataclass
        from typing import ClassVar

        @dataclass
        class Reply:
            text: str = "a"
            score: int = 1

        def answer(question):
            return str(asdict(Reply())) + question
        """,
        "score: int",
        "score: ClassVar[int]",
    ),
    swap(
        "the order of the fields of a dataclass",
        """
        from dataclasses import dataclass

        @dataclass
        class Reply:
            text: str
            role: str

        def answer(question):
            return Reply("a", question).text
        """,
        "text: str\n            role: str",
        "role: str\n            text: str",
    ),
    swap(
        "what a default_factory makes in a dataclass",
        """
        from dataclasses import dataclass, field

        @dataclass
        class Agent:
            tools: list = field(default_factory=lambda: ["search"])

        def answer(question):
            return str(Agent().tools) + question
        """,
        '["search"]',
        '["read"]',
    ),
    swap(
        "the metadata of a field of a dataclass",
        """
        from dataclasses import dataclass, field, fields

        @dataclass
        class Reply:
            text: str = field(default="", metadata={"about": "the reply"})

        def answer(question):
            return fields(Reply)[0].metadata["about"] + question
        """,
        "the reply",
        "a reply",
    ),
    swap(
        "__post_init__ of a dataclass",
        """
        from dataclasses import dataclass

        @dataclass
        class Agent:
            tone: str

            def __post_init__(self):
                self.tone = self.tone + "1"

        def answer(question):
            return Agent(question).tone
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a dataclass becomes one that can be ordered",
        """
        from dataclasses import dataclass

        @dataclass(order=True)
        class Score:
            value: int

            def __str__(self):
                return str(self.value)

        def answer(question):
            return str(max(Score(1), Score(2)))
        """,
        "(order=True)",
        "(order=False)",
    ),
    swap(
        "the default of a namedtuple",
        """
        from collections import namedtuple

        Reply = namedtuple("Reply", "role text", defaults=("kind",))

        def answer(question):
            return Reply(question).text
        """,
        '("kind",)',
        '("rude",)',
    ),
    swap(
        "a validator of a class of attrs",
        """
        import attrs

        def shorter(instance, attribute, value):
            if len(value) > 3:
                raise ValueError("too long")

        @attrs.define
        class Ask:
            text: str = attrs.field(validator=shorter)

        def answer(question):
            return Ask(question).text
        """,
        "> 3",
        "> 4",
    ),
    swap(
        "a default of a class of attrs",
        """
        import attrs

        @attrs.define
        class Ask:
            tone: str = "kind"

        def answer(question):
            return Ask().tone + question
        """,
        '"kind"',
        '"rude"',
    ),
    swap(
        "the order of the members of an enum",
        """
        from enum import Enum, auto

        class Step(Enum):
            PLAN = auto()
            WRITE = auto()

        def answer(question):
            return str([step.name for step in Step]) + question
        """,
        "PLAN = auto()\n            WRITE = auto()",
        "WRITE = auto()\n            PLAN = auto()",
    ),
    swap(
        "_missing_ of an enum",
        """
        from enum import Enum

        class Tone(Enum):
            KIND = "kind"
            RUDE = "rude"

            @classmethod
            def _missing_(cls, value):
                return cls.KIND

        def answer(question):
            return Tone(question).value
        """,
        "return cls.KIND",
        "return cls.RUDE",
    ),
    swap(
        "a member of an enum that a call made",
        """
        from enum import Enum

        Tone = Enum("Tone", {"KIND": "kind", "RUDE": "rude"})

        def answer(question):
            return Tone["KIND"].value + question
        """,
        '"KIND": "kind"',
        '"KIND": "calm"',
    ),
    swap(
        "the type of a field of a pydantic model",
        """
        from pydantic import BaseModel

        class Ask(BaseModel):
            limit: int

        def answer(question):
            return str(Ask(limit="3").limit) + question
        """,
        "limit: int",
        "limit: float",
    ),
    swap(
        "the description of a field of a pydantic model",
        """
        from pydantic import BaseModel, Field

        class Ask(BaseModel):
            limit: int = Field(3, description="how many")

        def answer(question):
            return str(Ask.model_json_schema()) + question
        """,
        "how many",
        "how much",
    ),
    swap(
        "the docstring of a pydantic model, which is in its schema",
        '''
        from pydantic import BaseModel

        class Ask(BaseModel):
            """Ask for it."""

            limit: int = 3

        def answer(question):
            return str(Ask.model_json_schema()) + question
        ''',
        "Ask for it.",
        "Beg for it.",
    ),
    swap(
        "a limit on a field of a pydantic model",
        """
        from typing import Annotated

        from pydantic import BaseModel, Field

        class Ask(BaseModel):
            text: Annotated[str, Field(max_length=3)]

        def answer(question):
            return Ask(text=question).text
        """,
        "max_length=3",
        "max_length=4",
    ),
    swap(
        "a validator of a pydantic model",
        """
        from pydantic import BaseModel, field_validator

        class Ask(BaseModel):
            text: str

            @field_validator("text")
            @classmethod
            def shape(cls, text):
                return text + "1"

        def answer(question):
            return Ask(text=question).text
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a global that a validator in Annotated uses",
        """
        from typing import Annotated

        from pydantic import AfterValidator, BaseModel

        SUFFIX = "1"

        def shape(text):
            return text + SUFFIX

        class Ask(BaseModel):
            text: Annotated[str, AfterValidator(shape)]

        def answer(question):
            return Ask(text=question).text
        """,
        '"1"',
        '"2"',
    ),
    swap(
        "a field of a model inside a model of pydantic",
        """
        from models import Reply

        def answer(question):
            return str(Reply.model_json_schema()) + question
        """,
        "score: int",
        "grade: int",
        file="models.py",
        models="""
        from pydantic import BaseModel

        class Part(BaseModel):
            score: int

        class Reply(BaseModel):
            parts: list[Part]
        """,
    ),
    swap(
        "the choices of a TypeAdapter",
        """
        from typing import Literal

        from pydantic import TypeAdapter

        LABEL = TypeAdapter(Literal["a", "b"])

        def answer(question):
            return LABEL.validate_python(question)
        """,
        '"a", "b"',
        '"a", "c"',
    ),
    swap(
        "a node at the end of a ring of instances",
        """
        class Node:
            def __init__(self, text, parent=None):
                self.text = text
                self.parent = parent
                self.children = []
                if parent:
                    parent.children.append(self)

        root = Node("root")
        leaf = Node("be kind", Node("branch", root))

        def answer(question):
            return root.children[0].children[0].text + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "the last of a thousand linked instances",
        """
        class Node:
            def __init__(self, text, after):
                self.text = text
                self.after = after

        chain = Node("be kind", None)
        for _ in range(3000):
            chain = Node("", chain)

        def answer(question):
            one = chain
            while one.after:
                one = one.after
            return one.text + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "an instance behind a weak reference",
        """
        import weakref

        class Agent:
            def __init__(self, system):
                self.system = system

        class Tool:
            def __init__(self, agent):
                self.agent = weakref.ref(agent)
                self.kept = [agent].__iter__()

        tool = Tool(Agent("be kind"))

        def answer(question):
            return tool.agent().system + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "an instance in a WeakValueDictionary",
        """
        import weakref

        class Agent:
            def __init__(self, system):
                self.system = system

        AGENTS = weakref.WeakValueDictionary()
        kept = AGENTS["a"] = Agent("be kind")

        def answer(question):
            return AGENTS["a"].system + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a value of this thread",
        """
        import threading

        LOCAL = threading.local()
        LOCAL.system = "be kind"

        def answer(question):
            return LOCAL.system + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a context variable that was set at import",
        """
        from contextvars import ContextVar

        SYSTEM = ContextVar("system")
        SYSTEM.set("be kind")

        def answer(question):
            return SYSTEM.get() + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "the name of a class that the prompt shows",
        """
        class Search:
            pass

        TOOLS = [Search()]

        def answer(question):
            return type(TOOLS[0]).__name__ + question
        """,
        "Search",
        "LookUp",
    ),
]

_MODULES = [
    swap(
        "__getattr__ of a module",
        """
        import prompts

        def answer(question):
            return prompts.SYSTEM + question
        """,
        "be kind",
        "be rude",
        file="prompts.py",
        prompts="_ALL = {'SYSTEM': 'be kind'}\n\ndef __getattr__(name):\n    return _ALL[name]\n",
    ),
    project(
        "a module that a package loads when its name is asked for",
        {
            "app.py": "import prompts\n\ndef answer(question):\n"
            "    return prompts.kind.TEXT + question\n",
            "prompts/__init__.py": """
                import importlib

                def __getattr__(name):
                    if name.startswith("_"):
                        raise AttributeError(name)
                    return importlib.import_module("." + name, __name__)
            """,
            "prompts/kind.py": 'TEXT = "be kind"\n',
        },
        "be kind",
        "be rude",
        file="prompts/kind.py",
    ),
    project(
        "a prompt in a module whose name comes from the question",
        {
            "app.py": """
                import importlib

                def answer(question):
                    name = "kind" if len(question) > 2 else "calm"
                    return importlib.import_module(f"prompts.{name}").TEXT + question
            """,
            "prompts/__init__.py": "",
            "prompts/kind.py": 'TEXT = "be kind"\n',
            "prompts/calm.py": 'TEXT = "be calm"\n',
        },
        "be kind",
        "be rude",
        file="prompts/kind.py",
    ),
    project(
        "a module of one's own package, imported by a computed relative name",
        {
            "app.py": "from agents.main import run as answer\n",
            "agents/__init__.py": "",
            "agents/main.py": """
                from importlib import import_module

                NAME = "tone"

                def run(question):
                    return import_module("." + NAME, __package__).TEXT + question
            """,
            "agents/tone.py": 'TEXT = "be kind"\n',
        },
        "be kind",
        "be rude",
        file="agents/tone.py",
    ),
    swap(
        "a module that __import__ finds",
        """
        def answer(question):
            return __import__("prompts").SYSTEM + question
        """,
        "be kind",
        "be rude",
        file="prompts.py",
        prompts=_SYSTEM,
    ),
    project(
        "a relative import inside a method, three steps away",
        {
            "app.py": "from agents import Agent\n\nagent = Agent()\n",
            "agents/__init__.py": """
                class Agent:
                    def run(self, question):
                        from .first import ask
                        return ask(question)
            """,
            "agents/first.py": "from . import second\n\ndef ask(question):\n"
            "    return second.tell() + question\n",
            "agents/second.py": "def tell():\n    from .third import SYSTEM\n    return SYSTEM\n",
            "agents/third.py": _SYSTEM,
        },
        "be kind",
        "be rude",
        file="agents/third.py",
        entry="app:agent.run",
    ),
    project(
        "a submodule under another name",
        {
            "app.py": "import prompts.texts.main as p\n\ndef answer(question):\n"
            "    return p.SYSTEM + question\n",
            "prompts/__init__.py": "",
            "prompts/texts/__init__.py": "",
            "prompts/texts/main.py": _SYSTEM,
        },
        "be kind",
        "be rude",
        file="prompts/texts/main.py",
    ),
    project(
        "a chain of attributes through packages",
        {
            "app.py": "import prompts.texts.main\n\ndef answer(question):\n"
            "    return prompts.texts.main.SYSTEM + question\n",
            "prompts/__init__.py": "",
            "prompts/texts/__init__.py": "",
            "prompts/texts/main.py": _SYSTEM,
        },
        "be kind",
        "be rude",
        file="prompts/texts/main.py",
    ),
    project(
        "a constant that star imports hand on",
        {
            "app.py": "from prompts import *\n\ndef answer(question):\n"
            "    return SYSTEM + question\n",
            "prompts/__init__.py": "from .texts import *\n",
            "prompts/texts.py": _SYSTEM,
        },
        "be kind",
        "be rude",
        file="prompts/texts.py",
    ),
    swap(
        "the order of two star imports of one name",
        """
        from pa import *
        from pb import *

        def answer(question):
            return SYSTEM + question
        """,
        "from pa import *\n        from pb import *",
        "from pb import *\n        from pa import *",
        pa='SYSTEM = "one"\n',
        pb='SYSTEM = "two"\n',
    ),
    swap(
        "what __all__ lets through",
        """
        SYSTEM = "be calm"
        from prompts import *

        def answer(question):
            return SYSTEM + question
        """,
        '__all__ = ["SYSTEM"]',
        "__all__ = []",
        file="prompts.py",
        prompts='__all__ = ["SYSTEM"]\nSYSTEM = "be kind"\n',
    ),
    swap(
        "a module in a dict of modules",
        """
        import pa
        import pb

        MODULES = {"a": pa, "b": pb}

        def answer(question):
            return MODULES["b"].SYSTEM + question
        """,
        '"two"',
        '"three"',
        file="pb.py",
        pa='SYSTEM = "one"\n',
        pb='SYSTEM = "two"\n',
    ),
    swap(
        "a module that an instance holds",
        """
        import prompts

        class Agent:
            def __init__(self, texts):
                self.texts = texts

            def run(self, question):
                return self.texts.SYSTEM + question

        agent = Agent(prompts)

        def answer(question):
            return agent.run(question)
        """,
        "be kind",
        "be rude",
        file="prompts.py",
        prompts=_SYSTEM,
    ),
    swap(
        "a module that is handed to a function",
        """
        import prompts

        def fill(texts, question):
            return texts.SYSTEM + question

        def answer(question):
            return fill(prompts, question)
        """,
        "be kind",
        "be rude",
        file="prompts.py",
        prompts=_SYSTEM,
    ),
    swap(
        "a name that attrgetter takes from a module",
        """
        from operator import attrgetter

        import prompts

        system = attrgetter("SYSTEM")

        def answer(question):
            return system(prompts) + question
        """,
        "be kind",
        "be rude",
        file="prompts.py",
        prompts=_SYSTEM,
    ),
    swap(
        "a name in the dict of a module",
        """
        import prompts

        def answer(question):
            return vars(prompts)["SYSTEM"] + prompts.__dict__["SYSTEM"] + question
        """,
        "be kind",
        "be rude",
        file="prompts.py",
        prompts=_SYSTEM,
    ),
    swap(
        "a new function in a module whose members are listed",
        """
        import inspect

        import tools

        def answer(question):
            return [name for name, _ in inspect.getmembers(tools, inspect.isfunction)]
        """,
        "def search(text):\n    return text\n",
        "def search(text):\n    return text\n\ndef read(text):\n    return text\n",
        file="tools.py",
        tools="def search(text):\n    return text\n",
    ),
    swap(
        "a global of one's own module, by sys.modules",
        """
        import sys

        SYSTEM = "be kind"

        def answer(question):
            return sys.modules[__name__].SYSTEM + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a global of another module, by sys.modules",
        """
        import sys

        import prompts

        def answer(question):
            return sys.modules["prompts"].SYSTEM + question
        """,
        "be kind",
        "be rude",
        file="prompts.py",
        prompts=_SYSTEM,
    ),
    swap(
        "a value that a module sets in another, imported for that alone",
        """
        import config
        import setting

        def answer(question):
            return config.MODEL + question
        """,
        "gpt-2",
        "gpt-3",
        file="setting.py",
        config='MODEL = "gpt-1"\n',
        setting='import config\n\nconfig.MODEL = "gpt-2"\n',
    ),
    project(
        "a tool that another module registers",
        {
            "app.py": "import plugins.search\nfrom registry import TOOLS\n\n"
            "def answer(question):\n    return [tool(question) for tool in TOOLS.values()]\n",
            "registry.py": """
                TOOLS = {}

                def tool(name):
                    def keep(function):
                        TOOLS[name] = function
                        return function
                    return keep
            """,
            "plugins/__init__.py": "",
            "plugins/search.py": """
                from registry import tool

                SUFFIX = "1"

                @tool("search")
                def search(text):
                    return text + SUFFIX
            """,
        },
        'SUFFIX = "1"',
        'SUFFIX = "2"',
        file="plugins/search.py",
    ),
    Edit(
        "a plugin is put into a folder that is searched at import",
        {
            "app.py": dedent("""
                import importlib
                import pkgutil

                import plugins

                TOOLS = [
                    importlib.import_module(f"plugins.{one.name}").run
                    for one in pkgutil.iter_modules(plugins.__path__)
                ]

                def answer(question):
                    return [tool(question) for tool in TOOLS]
            """),
            "plugins/__init__.py": "",
            "plugins/one.py": "def run(text):\n    return text + '1'\n",
        },
        {"plugins/two.py": "def run(text):\n    return text + '2'\n"},
    ),
    Edit(
        "a faster module appears, in the place of the fallback",
        {
            "app.py": dedent("""
                try:
                    from fast import helper
                except ImportError:
                    def helper(text):
                        return text + "1"

                def answer(question):
                    return helper(question)
            """)
        },
        {"fast.py": "def helper(text):\n    return text + '2'\n"},
    ),
    Edit(
        "a faster module appears, which the function tries to import",
        {
            "app.py": dedent("""
                def answer(question):
                    try:
                        import fast
                    except ImportError:
                        return question
                    return fast.helper(question)
            """)
        },
        {"fast.py": "def helper(text):\n    return text + '2'\n"},
    ),
    swap(
        "two modules that import each other",
        """
        import other

        SYSTEM = "be kind"

        def answer(question):
            return other.ask(question)
        """,
        "be kind",
        "be rude",
        other="""
        import app

        def ask(question):
            return app.SYSTEM + question
        """,
    ),
]

_JINJA = """
    import jinja2

    TEXTS = {"a": "be kind, {{ name | shape }}{{ tail }}"}
    ENV = jinja2.Environment(loader=jinja2.DictLoader(TEXTS))

    def shape(text):
        return text + "1"

    ENV.filters["shape"] = shape
    ENV.globals["tail"] = "."

    def answer(question):
        return ENV.get_template("a").render(name=question)
"""

_INPUTS = [
    swap("a template in the loader of an environment of jinja2", _JINJA, "be kind", "be rude"),
    swap("a filter in an environment of jinja2", _JINJA, '+ "1"', '+ "2"'),
    swap("a global in an environment of jinja2", _JINJA, '"tail"] = "."', '"tail"] = "!"'),
    project(
        "a template file that jinja2 loaded at import",
        {
            "app.py": """
                import jinja2

                ENV = jinja2.Environment(loader=jinja2.FileSystemLoader("."))
                PROMPT = ENV.get_template("prompt.j2")

                def answer(question):
                    return PROMPT.render(name=question)
            """,
            "prompt.j2": "be kind, {{ name }}",
        },
        "kind",
        "rude",
        file="prompt.j2",
    ),
    project(
        "a text file that is read at import",
        {
            "app.py": """
                from pathlib import Path

                SYSTEM = Path(__file__).with_name("system.txt").read_text()

                def answer(question):
                    return SYSTEM + question
            """,
            "system.txt": "be kind",
        },
        "kind",
        "rude",
        file="system.txt",
    ),
    project(
        "a json file that is read at import, deep inside it",
        {
            "app.py": """
                import json

                with open("config.json") as file:
                    CFG = json.load(file)

                def answer(question):
                    return CFG["agents"][1]["model"] + question
            """,
            "config.json": '{"agents": [{"model": "a"}, {"model": "b"}]}',
        },
        '"b"',
        '"c"',
        file="config.json",
    ),
    project(
        "a yaml file that a class reads when it is made",
        {
            "app.py": """
                import yaml

                class Agent:
                    def __init__(self, path):
                        self.cfg = yaml.safe_load(open(path).read())

                    def run(self, question):
                        return self.cfg["system"] + question

                agent = Agent("agent.yaml")
            """,
            "agent.yaml": "system: be kind\n",
        },
        "kind",
        "rude",
        file="agent.yaml",
        entry="app:agent.run",
    ),
    project(
        "a toml file that another module reads into settings",
        {
            "app.py": "from settings import SETTINGS\n\ndef answer(question):\n"
            "    return SETTINGS.model + question\n",
            "settings.py": """
                import tomllib
                from dataclasses import dataclass

                @dataclass(frozen=True)
                class Settings:
                    model: str

                SETTINGS = Settings(**tomllib.load(open("settings.toml", "rb")))
            """,
            "settings.toml": 'model = "gpt-1"\n',
        },
        "gpt-1",
        "gpt-2",
        file="settings.toml",
    ),
    Edit(
        "an option that argparse read",
        {
            "app.py": dedent("""
                import argparse

                parser = argparse.ArgumentParser()
                parser.add_argument("--model")
                ARGS = parser.parse_args()

                def answer(question):
                    return ARGS.model + question
            """)
        },
        arguments=(("--model", "a"), ("--model", "b")),
    ),
    started(
        "an argument that the function itself reads",
        """
        import sys

        def answer(question):
            return sys.argv[1] + question
        """,
        "gpt-1",
        "gpt-2",
    ),
    started(
        "an argument beside an id, in one dict",
        """
        import sys
        import uuid

        RUN = {"id": uuid.uuid4().hex, "model": sys.argv[1]}

        def answer(question):
            return RUN["model"] + question
        """,
        "gpt-1",
        "gpt-2",
    ),
    started(
        "an argument beside a time, in one assignment",
        """
        import sys
        import time

        MODEL, STARTED = sys.argv[1], time.time()

        def answer(question):
            return MODEL + question
        """,
        "gpt-1",
        "gpt-2",
    ),
    started(
        "an argument beside an id, in one instance",
        """
        import sys
        import uuid

        class Agent:
            def __init__(self, model):
                self.id = uuid.uuid4()
                self.model = model

            def __call__(self, question):
                return self.model + question

        answer = Agent(sys.argv[1])
        """,
        "gpt-1",
        "gpt-2",
    ),
    started(
        "an argument in one text with an id",
        """
        import sys
        import uuid

        RUN = f"{sys.argv[1]}/{uuid.uuid4().hex}"

        def answer(question):
            return RUN.partition("/")[0] + question
        """,
        "gpt-1",
        "gpt-2",
    ),
    started(
        "a seed from the arguments",
        """
        import random
        import sys

        random.seed(int(sys.argv[1]))
        SHOTS = random.sample(range(1000), 5)

        def answer(question):
            return str(SHOTS) + question
        """,
        "1",
        "2",
    ),
    swap(
        "a seed in the source",
        """
        import random

        SHOTS = random.Random(1).sample(range(1000), 5)

        def answer(question):
            return str(SHOTS) + question
        """,
        "Random(1)",
        "Random(2)",
    ),
    swap(
        "a seed that is set on a line of its own",
        """
        import random

        random.seed(1)
        SHOTS = random.sample(range(1000), 5)

        def answer(question):
            return str(SHOTS) + question
        """,
        "seed(1)",
        "seed(2)",
    ),
    swap(
        "the state of a generator of random numbers",
        """
        import random

        RANDOM = random.Random(1)

        def answer(question):
            return str(RANDOM.random()) + question
        """,
        "Random(1)",
        "Random(2)",
    ),
    swap(
        "a random value becomes a fixed one",
        """
        import uuid

        RUN = uuid.uuid4().hex

        def answer(question):
            return RUN + question
        """,
        "uuid.uuid4().hex",
        '"fixed"',
    ),
    swap(
        "a date that is written out becomes today",
        """
        from datetime import date

        TODAY = date(2024, 1, 1)

        def answer(question):
            return f"Today is {TODAY}. {question}"
        """,
        "date(2024, 1, 1)",
        "date.today()",
    ),
    variable(
        "a variable that was read at import",
        """
        import os

        MODEL = os.environ.get("MODEL", "none")

        def answer(question):
            return MODEL + question
        """,
        "a",
        "b",
    ),
    variable(
        "a variable that was not set before",
        """
        import os

        def answer(question):
            return os.environ.get("MODEL", "none") + question
        """,
        None,
        "a",
    ),
    variable(
        "whether a variable is set at all",
        """
        import os

        def answer(question):
            return ("yes" if "MODEL" in os.environ else "no") + question
        """,
        None,
        "a",
    ),
    variable(
        "a variable that a helper in another module reads",
        """
        from config import Config

        def answer(question):
            return Config().model + question
        """,
        "a",
        "b",
        config="""
        from os import environ as env

        class Config:
            @property
            def model(self):
                return env["MODEL"]
        """,
    ),
    variable(
        "a variable that the default_factory of a dataclass reads",
        """
        import os
        from dataclasses import dataclass, field

        @dataclass
        class Settings:
            model: str = field(default_factory=lambda: os.getenv("MODEL", "none"))

        def answer(question):
            return Settings().model + question
        """,
        "a",
        "b",
    ),
    variable(
        "a variable that decides which function is defined",
        """
        import os

        if os.environ["MODEL"] == "a":
            def helper(text):
                return text + "1"
        else:
            def helper(text):
                return text + "2"

        def answer(question):
            return helper(question)
        """,
        "a",
        "b",
    ),
    variable(
        "a variable that a module reads which only a function imports",
        """
        def answer(question):
            from config import MODEL
            return MODEL + question
        """,
        "a",
        "b",
        config="""
        import os

        MODEL = os.environ["MODEL"]
        """,
    ),
    variable(
        "a variable whose name is a constant",
        """
        import os

        NAME = "MODEL"

        def answer(question):
            return os.environ[NAME] + question
        """,
        "a",
        "b",
    ),
    swap(
        "the default for a variable that is not set",
        """
        import os

        def answer(question):
            return os.getenv("MODEL", "gpt-1") + question
        """,
        "gpt-1",
        "gpt-2",
    ),
]


def entered(entry: str, name: str, text: str, old: str, new: str) -> Edit:
    """Return an edit of `app.py` under another entry."""
    return project(name, {"app.py": text}, old, new, entry=entry)


_ENTRIES = [
    entered(
        "app:build",
        "what a factory closes over",
        """
        def build():
            cfg = {"model": "gpt-1"}
            def run(question):
                return cfg["model"] + question
            return run
        """,
        "gpt-1",
        "gpt-2",
    ),
    entered(
        "app:build",
        "a tool in the list that a factory hands over",
        """
        class Agent:
            def __init__(self, tools):
                self.tools = tools

            def __call__(self, question):
                return [tool(question) for tool in self.tools]

        def build():
            def search(text):
                return "found " + text
            return Agent([search, lambda text: text + "1"])
        """,
        '+ "1"',
        '+ "2"',
    ),
    entered(
        "app:Agent",
        "a class as the workflow",
        """
        class Agent:
            def __new__(cls, question):
                return cls.shape(question)

            @classmethod
            def shape(cls, question):
                return question + "1"
        """,
        '+ "1"',
        '+ "2"',
    ),
    entered(
        "app:agent.run",
        "the state behind a bound method as the workflow",
        """
        class Agent:
            def __init__(self, system):
                self.system = system

            def run(self, question):
                return self.system + question

        agent = Agent("be kind")
        """,
        "be kind",
        "be rude",
    ),
    entered(
        "app:answer",
        "a keyword of a partial as the workflow",
        """
        from functools import partial

        def ask(question, *, model):
            return model + question

        answer = partial(ask, model="gpt-1")
        """,
        "gpt-1",
        "gpt-2",
    ),
    entered(
        "app:Agent.run",
        "a static method as the workflow",
        """
        SYSTEM = "be kind"

        class Agent:
            @staticmethod
            def run(question):
                return SYSTEM + question
        """,
        "be kind",
        "be rude",
    ),
    entered(
        "app:Second.run",
        "the class behind a class method as the workflow",
        """
        class First:
            system = "be calm"

            @classmethod
            def run(cls, question):
                return cls.system + question

        class Second(First):
            system = "be kind"
        """,
        "be kind",
        "be rude",
    ),
    entered(
        "app:answer",
        "the arguments of a method that is bound by hand",
        """
        import types

        def run(self, question):
            return self["system"] + question

        answer = types.MethodType(run, {"system": "be kind"})
        """,
        "be kind",
        "be rude",
    ),
    entered(
        "app:answer",
        "a cached function as the workflow",
        """
        from functools import cache

        SYSTEM = "be kind"

        @cache
        def answer(question):
            return SYSTEM + question
        """,
        "be kind",
        "be rude",
    ),
]


_TWO = """
    class Agent:
        def __init__(self, prompt):
            self.prompt = prompt

        def run(self, question):
            return self.prompt + question

    planner, writer = Agent("plan: "), Agent("write: ")

    def answer(question):
        return writer.run(planner.run(question))
"""

_LIBRARIES = [
    value(
        "a Fraction", "Fraction(1, 2)", "Fraction(1, 3)", imports="from fractions import Fraction"
    ),
    value(
        "a time zone",
        "ZoneInfo('UTC')",
        "ZoneInfo('Etc/GMT-1')",
        imports="from zoneinfo import ZoneInfo",
    ),
    value(
        "the format of a Struct",
        "Struct('<i')",
        "Struct('>i')",
        imports="from struct import Struct",
        shown="{X.pack(1)}",
    ),
    value(
        "what lies in a StringIO",
        "StringIO('kind')",
        "StringIO('rude')",
        imports="from io import StringIO",
        shown="{X.getvalue()}",
    ),
    value(
        "an element of a tree of XML",
        "fromstring('<a><b>kind</b></a>')",
        "fromstring('<a><b>rude</b></a>')",
        imports="from xml.etree.ElementTree import fromstring",
        shown="{X[0].text}",
    ),
    value(
        "a code object",
        "compile('1 + 1', 'x', 'eval')",
        "compile('1 + 2', 'x', 'eval')",
        shown="{eval(X)}",
    ),
    value(
        "an instance of numpy's generator",
        "default_rng(1)",
        "default_rng(2)",
        imports="from numpy.random import default_rng",
        shown="{X.random()}",
    ),
    value(
        "the settings of an encoder",
        "JSONEncoder(indent=1)",
        "JSONEncoder(indent=2)",
        imports="from json import JSONEncoder",
        shown="{X.encode([1])}",
    ),
    value(
        "a map that waits",
        "map(lambda one: one + '1', 'ab')",
        "map(lambda one: one + '2', 'ab')",
        shown="{next(X)}",
    ),
    value(
        "a key made of a function that compares",
        "cmp_to_key(lambda a, b: len(a) - len(b))",
        "cmp_to_key(lambda a, b: len(b) - len(a))",
        imports="from functools import cmp_to_key",
        shown='{sorted(["a", "bb"], key=X)}',
    ),
    value(
        "a function that numpy maps",
        "vectorize(lambda one: one + 1)",
        "vectorize(lambda one: one + 2)",
        imports="from numpy import vectorize",
        shown="{X(1)}",
    ),
    swap(
        "what is in a queue",
        """
        import queue

        TODO = queue.Queue()
        TODO.put("be kind")

        def answer(question):
            return TODO.get_nowait() + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "an instance in an array of numpy",
        """
        import numpy as np

        class Agent:
            def __init__(self, system):
                self.system = system

        AGENTS = np.array([Agent("be kind"), None], dtype=object)

        def answer(question):
            return AGENTS[0].system + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "an asynchronous context manager",
        """
        from contextlib import asynccontextmanager

        @asynccontextmanager
        async def session(name):
            yield "kind " + name

        async def answer(question):
            async with session(question) as tone:
                return tone
        """,
        '"kind "',
        '"rude "',
    ),
    swap(
        "a context manager on a method of an agent",
        """
        import contextlib

        class Agent:
            @contextlib.contextmanager
            def open(self, name):
                yield "kind " + name

        agent = Agent()

        def answer(question):
            with agent.open(question) as tone:
                return tone
        """,
        '"kind "',
        '"rude "',
    ),
    swap(
        "a generator that a function of one's own began",
        """
        def numbered(texts):
            for number, text in enumerate(texts):
                yield f"{number} {text}"

        STREAM = numbered(["be kind"] * 9)

        def answer(question):
            return next(STREAM) + question
        """,
        '"{number} {text}"',
        '"{text} {number}"',
    ),
    swap(
        "an attribute of an error with a constructor of its own",
        """
        class Stop(Exception):
            def __init__(self, text):
                super().__init__()
                self.text = text

        STOP = Stop("kind")

        def answer(question):
            return STOP.text + question
        """,
        '"kind"',
        '"rude"',
    ),
    swap(
        "a subclass of threading.local",
        """
        import threading

        class Local(threading.local):
            def __init__(self):
                self.system = "be kind"

        LOCAL = Local()

        def answer(question):
            return LOCAL.system + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a method that string.Formatter calls",
        """
        import string

        class Filler(string.Formatter):
            def get_value(self, key, given, named):
                return "kind " + key

        FILLER = Filler()

        def answer(question):
            return FILLER.format("{a}") + question
        """,
        '"kind "',
        '"rude "',
    ),
    swap(
        "a method that json calls",
        """
        import json

        class Encoder(json.JSONEncoder):
            def default(self, one):
                return sorted(one)

        def answer(question):
            return json.dumps({*question}, cls=Encoder)
        """,
        "return sorted(one)",
        "return sorted(one, reverse=True)",
    ),
    swap(
        "a method of a subclass of UserDict",
        """
        from collections import UserDict

        class Prompts(UserDict):
            def __getitem__(self, name):
                return super().__getitem__(name) + "1"

        PROMPTS = Prompts(a="be kind")

        def answer(question):
            return PROMPTS["a"] + question
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a converter of a class of attrs",
        """
        import attrs

        def shape(text):
            return text + "1"

        @attrs.frozen
        class Ask:
            text: str = attrs.field(converter=shape)

        def answer(question):
            return Ask(question).text
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a function under validate_call of pydantic",
        """
        from pydantic import validate_call

        SUFFIX = "1"

        @validate_call
        def answer(question: str):
            return question + SUFFIX
        """,
        '"1"',
        '"2"',
    ),
    swap(
        "a model that create_model made",
        """
        from pydantic import create_model

        Ask = create_model("Ask", limit=(int, 3))

        def answer(question):
            return str(Ask().limit) + question
        """,
        "(int, 3)",
        "(int, 4)",
    ),
    swap(
        "the configuration of a pydantic model",
        """
        from pydantic import BaseModel, ConfigDict

        class Ask(BaseModel):
            model_config = ConfigDict(str_to_upper=True)
            text: str

        def answer(question):
            return Ask(text=question).text
        """,
        "str_to_upper=True",
        "str_to_lower=True",
    ),
    swap(
        "a private attribute of a pydantic instance",
        """
        from pydantic import BaseModel, PrivateAttr

        class Agent(BaseModel):
            name: str
            _system: str = PrivateAttr("")

        agent = Agent(name="a")
        agent._system = "be kind"

        def answer(question):
            return agent._system + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a function as the value of an enum's member",
        """
        from enum import Enum
        from functools import partial

        def loud(text):
            return text.upper()

        class Shape(Enum):
            LOUD = partial(loud)

        def answer(question):
            return getattr(Shape.LOUD, "value", Shape.LOUD)(question)
        """,
        "text.upper()",
        "text.title()",
    ),
    swap(
        "a function that is run in a thread",
        """
        from concurrent.futures import ThreadPoolExecutor

        def search(text):
            return text + "1"

        def answer(question):
            with ThreadPoolExecutor(1) as pool:
                return list(pool.map(search, [question]))
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a function of one's own in the place of one of a library",
        """
        import colorsys

        def mine(thing):
            return "1" + str(thing)

        colorsys.rgb_to_hsv = mine

        def answer(question):
            return colorsys.rgb_to_hsv(question)
        """,
        '"1"',
        '"2"',
    ),
    swap(
        "what another module does to a library when it is imported",
        """
        import setup_numbers
        from decimal import Decimal

        def answer(question):
            return str(Decimal(1) / 3) + question
        """,
        "prec = 3",
        "prec = 5",
        file="setup_numbers.py",
        setup_numbers="import decimal\n\ndecimal.getcontext().prec = 3\n",
    ),
]

_SWAPS = [
    swap(
        "two instances change places",
        _TWO,
        'Agent("plan: "), Agent("write: ")',
        'Agent("write: "), Agent("plan: ")',
    ),
    app(
        "two functions change their bodies",
        "def one(text):\n    return text + '1'\ndef two(text):\n"
        "    return text + '2'\ndef answer(question):\n"
        "    return one(two(question))\n",
        "def one(text):\n    return text + '2'\ndef two(text):\n"
        "    return text + '1'\ndef answer(question):\n"
        "    return one(two(question))\n",
    ),
    app(
        "two globals change their values",
        "A = 'a'\nB = 'b'\ndef answer(question):\n    return A + B + question\n",
        "A = 'b'\nB = 'a'\ndef answer(question):\n    return A + B + question\n",
    ),
    app(
        "two instances of equal state change their classes",
        "class A:\n    def run(self):\n        return 'a'\nclass B:\n"
        "    def run(self):\n        return 'b'\nx = A()\ny = B()\n"
        "def answer(question):\n    return x.run() + y.run()\n",
        "class A:\n    def run(self):\n        return 'a'\nclass B:\n"
        "    def run(self):\n        return 'b'\nx = B()\ny = A()\n"
        "def answer(question):\n    return x.run() + y.run()\n",
    ),
    app(
        "two attributes of an instance change their values",
        "class A:\n    pass\na = A()\na.x = 'kind'\na.y = 'rude'\n"
        "def answer(question):\n    return a.x + a.y\n",
        "class A:\n    pass\na = A()\na.x = 'rude'\na.y = 'kind'\n"
        "def answer(question):\n    return a.x + a.y\n",
    ),
    app(
        "which of two equal functions of one name is at which place",
        "S = []\ndef step(text):\n    return text + '1'\nS.append(step)\n"
        "def step(text):\n    return text + '2'\nS.append(step)\n"
        "def step(text):\n    return text + '3'\nS.append(step)\n"
        "def answer(question):\n    return S[1](question)\n",
        "S = []\ndef step(text):\n    return text + '1'\nS.append(step)\n"
        "def step(text):\n    return text + '4'\nS.append(step)\n"
        "def step(text):\n    return text + '3'\nS.append(step)\n"
        "def answer(question):\n    return S[1](question)\n",
    ),
    swap(
        "the second of two classes of one name in two modules",
        """
        import pa
        import pb

        TEAM = [pa.Agent(), pb.Agent()]

        def answer(question):
            return "".join(agent.run(question) for agent in TEAM)
        """,
        '+ "2"',
        '+ "3"',
        file="pb.py",
        pa='class Agent:\n    def run(self, text):\n        return text + "1"\n',
        pb='class Agent:\n    def run(self, text):\n        return text + "2"\n',
    ),
    app(
        "a text becomes an enum's member that equals it",
        "from enum import Enum\nclass Tone(str, Enum):\n    KIND = 'kind'\n"
        "X = 'kind'\ndef answer(question):\n    return str(X) + question\n",
        "from enum import Enum\nclass Tone(str, Enum):\n    KIND = 'kind'\n"
        "X = Tone.KIND\ndef answer(question):\n    return str(X) + question\n",
    ),
    swap(
        "a function beside a variable that is still without a value",
        """
        def make(later):
            def run(question):
                return "kind" + question if True else missing
            if later:
                missing = 1
            return run

        answer = make(False)
        """,
        '"kind"',
        '"rude"',
    ),
    swap(
        "a global that only a class inside a function names",
        """
        SYSTEM = "be kind"

        def answer(question):
            class Agent:
                system = SYSTEM
                def run(self, text=question):
                    return self.system + text
            return Agent().run()
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a decorator that only a nested function wears",
        """
        def loud(function):
            return lambda text: function(text) + "1"

        def answer(question):
            @loud
            def inner(text):
                return text
            return inner(question)
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "a global that only the default of a nested function names",
        """
        SYSTEM = "be kind"

        def answer(question):
            def inner(text, system=SYSTEM):
                return system + text
            return inner(question)
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a tool among the attributes of a function",
        """
        def search(text):
            return text + "1"

        def answer(question):
            return answer.tools[0](question)

        answer.tools = [search]
        """,
        '+ "1"',
        '+ "2"',
    ),
    swap(
        "an instance that stands in for a module",
        """
        import prompts

        def answer(question):
            return prompts.system + question
        """,
        "be kind",
        "be rude",
        file="prompts.py",
        prompts="""
        import sys

        class Prompts:
            system = "be kind"

        sys.modules[__name__] = Prompts()
        """,
    ),
    swap(
        "a module with a class of its own",
        """
        import prompts

        def answer(question):
            return prompts.system + question
        """,
        "be kind",
        "be rude",
        file="prompts.py",
        prompts="""
        import sys
        import types

        class Prompts(types.ModuleType):
            @property
            def system(self):
                return "be kind"

        sys.modules[__name__].__class__ = Prompts
        """,
    ),
    swap(
        "a module that is made by hand",
        """
        import types

        prompts = types.ModuleType("prompts")
        exec("SYSTEM = 'be kind'", vars(prompts))

        def answer(question):
            return prompts.SYSTEM + question
        """,
        "be kind",
        "be rude",
    ),
    variable(
        "a variable that a helper reads by the name that it is given",
        """
        import os

        def setting(name, default=""):
            return os.environ.get(name, default)

        def answer(question):
            return setting("MODEL") + question
        """,
        "a",
        "b",
    ),
    variable(
        "a variable that gets a default",
        """
        import os

        def answer(question):
            return os.environ.setdefault("MODEL", "none") + question
        """,
        "a",
        "b",
    ),
]

RERUN: list[Edit] = [
    *_VALUES,
    *_BODIES,
    *_FUNCTIONS,
    *_CLASSES,
    *_MODULES,
    *_INPUTS,
    *_ENTRIES,
    *_LIBRARIES,
    *_SWAPS,
]


_PLAIN = '''
    import json
    import os
    from dataclasses import dataclass

    SYSTEM = "be kind"
    WORDS = ["a", "b"]

    @dataclass
    class Reply:
        """A reply."""

        text: str

        def shout(self, times):
            """Shout it."""
            loud = self.text.upper()
            return loud * times

        def quiet(self):
            return self.text.lower()

    class Agent:
        """An agent."""

        def __init__(self, system):
            self.system = system

        def run(self, question):
            found = [one for one in WORDS if one in question]
            return Reply(self.system + question).shout(1 + len(found))

        def stop(self):
            return None

    agent = Agent(SYSTEM)

    def helper(text):
        """Help."""
        total = 0
        for number, letter in enumerate(text):
            total += number * len(letter)
        def inner(more):
            extra = total + more
            return extra
        return inner(1)

    def careful(text):
        try:
            return int(text)
        except ValueError as error:
            return len(str(error))

    def answer(question):
        if (size := helper(question)) > 1000 and careful(question):
            return ""
        return f"{agent.run(question)} {size} {careful(question)}"
'''


def same(name: str, text: str, **files: str) -> Edit:
    """Return no edit at all: two starts of the same project."""
    others = {f"{one}.py": dedent(text) for one, text in files.items()}
    return Edit(name, {"app.py": dedent(text), **others})


KEEP: list[Edit] = [
    swap(
        "a comment at the end of a line in a method", _PLAIN, "loud * times", "loud * times  # all"
    ),
    swap(
        "hints in a method of a dataclass",
        _PLAIN,
        "def shout(self, times):",
        "def shout(self, times: int) -> str:",
    ),
    swap(
        "hints in a method of a plain class",
        _PLAIN,
        "def run(self, question):",
        "def run(self, question: str) -> str:",
    ),
    swap(
        "a hint of an attribute in __init__",
        _PLAIN,
        "self.system = system",
        "self.system: str = system",
    ),
    swap("a hint of a global", _PLAIN, 'SYSTEM = "be', 'SYSTEM: str = "be'),
    swap(
        "a hint that declares an attribute of a plain class",
        _PLAIN,
        "def __init__(self, system):",
        "system: str\n\n        def __init__(self, system):",
    ),
    swap(
        "annotations from the future",
        _PLAIN,
        "import json\n",
        "from __future__ import annotations\n\n    import json\n",
    ),
    swap(
        "a TypeAlias for a hint",
        _PLAIN.replace("import os\n", "import os\n    from typing import TypeAlias\n"),
        "def helper(text):",
        "Text: TypeAlias = str\n\n    def helper(text: Text) -> int:",
    ),
    swap(
        "an import for the type checker alone",
        _PLAIN,
        'SYSTEM = "be',
        "from typing import TYPE_CHECKING\n\n    if TYPE_CHECKING:\n"
        '        from decimal import Decimal\n\n    SYSTEM = "be',
    ),
    swap("a renamed local in a method", _PLAIN, "loud", "noise"),
    swap("a renamed local that a nested function uses", _PLAIN, "total", "whole"),
    swap("a renamed local in a nested function", _PLAIN, "extra", "most"),
    swap("a renamed nested function", _PLAIN, "inner", "within"),
    swap(
        "renamed targets of a loop",
        _PLAIN.replace("number, letter", "n0, l0").replace("number * len(letter)", "n0 * len(l0)"),
        "l0",
        "char",
    ),
    swap("a renamed error", _PLAIN, "error", "problem"),
    swap(
        "a renamed variable in a comprehension in a method",
        _PLAIN,
        "[one for one in WORDS if one in question]",
        "[word for word in WORDS if word in question]",
    ),
    swap("a renamed walrus", _PLAIN, "size", "length"),
    swap("the docstring of a method", _PLAIN, "Shout it.", "Say it loudly."),
    swap("the docstring of a plain class", _PLAIN, "An agent.", "It answers."),
    swap("a docstring goes", _PLAIN, '        """Help."""\n', ""),
    swap(
        "a docstring comes, to a method that had none",
        _PLAIN,
        "        def quiet(self):\n",
        '        def quiet(self):\n            """Whisper."""\n',
    ),
    swap(
        "a docstring for the module",
        _PLAIN,
        "\n    import json\n",
        '\n    """All of it."""\n\n    import json\n',
    ),
    swap(
        "pass after a docstring",
        _PLAIN,
        '        """Help."""\n',
        '        """Help."""\n        pass\n',
    ),
    swap(
        "the order of two methods",
        _PLAIN,
        """
        def run(self, question):
            found = [one for one in WORDS if one in question]
            return Reply(self.system + question).shout(1 + len(found))

        def stop(self):
            return None
""",
        """
        def stop(self):
            return None

        def run(self, question):
            found = [one for one in WORDS if one in question]
            return Reply(self.system + question).shout(1 + len(found))
""",
    ),
    swap(
        "a helper moves below its caller",
        """
        def helper(text):
            return text + "1"

        def answer(question):
            return helper(question)
        """,
        """
        def helper(text):
            return text + "1"

        def answer(question):
            return helper(question)
        """,
        """
        def answer(question):
            return helper(question)

        def helper(text):
            return text + "1"
        """,
    ),
    swap(
        "the order of two constants",
        _PLAIN,
        'SYSTEM = "be kind"\n    WORDS = ["a", "b"]',
        'WORDS = ["a", "b"]\n    SYSTEM = "be kind"',
    ),
    swap(
        "a class that nobody uses",
        _PLAIN,
        "agent = Agent",
        "class Other:\n        tone = 1\n\n    agent = Agent",
    ),
    swap("a global that nobody uses", _PLAIN, "agent = Agent", "LIMIT = 7\n    agent = Agent"),
    swap(
        "a second instance that nobody uses",
        _PLAIN,
        "agent = Agent",
        "spare = Agent('spare')\n    agent = Agent",
    ),
    swap(
        "a subclass that nobody uses",
        _PLAIN,
        "agent = Agent",
        "class Other(Agent):\n        tone = 1\n\n    agent = Agent",
    ),
    swap(
        "a block for python app.py",
        _PLAIN,
        'careful(question)}"\n',
        'careful(question)}"\n\n    if __name__ == "__main__":\n        print(answer("a"))\n',
    ),
    swap("other quotes", _PLAIN, '"be kind"', "'be kind'"),
    swap("other quotes inside a function", _PLAIN, 'return ""', "return ''"),
    swap("brackets around an expression", _PLAIN, "return loud * times", "return (loud * times)"),
    swap(
        "a line goes on after a backslash",
        _PLAIN,
        "return self.text.lower()",
        "return self \\\n                .text.lower()",
    ),
    swap(
        "a comma at the end of a list", _PLAIN, '["a", "b"]', '[\n        "a",\n        "b",\n    ]'
    ),
    swap("empty brackets after the name of a class", _PLAIN, "class Agent:", "class Agent():"),
    swap(
        "two statements on one line",
        _PLAIN,
        "extra = total + more\n            return extra",
        "extra = total + more; return extra",
    ),
    swap("a number written in another way", _PLAIN, "> 1000", "> 1_000"),
    app(
        "a text that is put together from other pieces",
        "def answer(question):\n    return 'be ' 'kind, ' + question\n",
        "def answer(question):\n    return (\n        'be k'\n        'ind, '\n    ) + question\n",
    ),
    app(
        "an f-string that is put together from other pieces",
        "def answer(question):\n    return f'be kind, {question}.'\n",
        "def answer(question):\n    return (\n        'be '\n"
        "        f'kind, {question}'\n        '.'\n    )\n",
    ),
    app(
        "a letter that is written as an escape",
        "X = 'caf\\u00e9'\ndef answer(question):\n    return X + 'caf\\u00e9' + question\n",
        "X = 'café'\ndef answer(question):\n    return X + 'café' + question\n",
    ),
    app(
        "a raw string of the same value",
        "import re\ndef answer(question):\n    return re.findall('\\\\w', question)\n",
        "import re\ndef answer(question):\n    return re.findall(r'\\w', question)\n",
    ),
    app(
        "tabs for spaces",
        "def answer(question):\n    if question:\n        return 1\n    return 2\n",
        "def answer(question):\n\tif question:\n\t\treturn 1\n\treturn 2\n",
    ),
    app(
        "else and if become elif",
        "def answer(question):\n    if question == 'a':\n        return 1\n"
        "    else:\n        if question == 'b':\n            return 2\n"
        "        else:\n            return 3\n",
        "def answer(question):\n    if question == 'a':\n        return 1\n"
        "    elif question == 'b':\n        return 2\n    else:\n"
        "        return 3\n",
    ),
    app(
        "a renamed target of with",
        "from contextlib import nullcontext\ndef answer(question):\n"
        "    with nullcontext(question) as text:\n        return text\n",
        "from contextlib import nullcontext\ndef answer(question):\n"
        "    with nullcontext(question) as words:\n        return words\n",
    ),
    app(
        "a renamed name in a pattern",
        "def answer(question):\n    match question.split():\n"
        "        case [one, *others]:\n            return one, others\n",
        "def answer(question):\n    match question.split():\n"
        "        case [first, *rest]:\n            return first, rest\n",
    ),
    app(
        "a renamed local alias of an import",
        "def answer(question):\n    import json as j\n    return j.dumps(question)\n",
        "def answer(question):\n    import json as coder\n    return coder.dumps(question)\n",
    ),
    app(
        "a renamed local whose order by name changes too",
        "def answer(question):\n    alpha = 1\n    beta = 2\n"
        "    def inner():\n        return alpha * 10 + beta\n"
        "    return inner()\n",
        "def answer(question):\n    zeta = 1\n    beta = 2\n    def inner():\n"
        "        return zeta * 10 + beta\n    return inner()\n",
    ),
    app(
        "a renamed local that a factory's function closes over",
        "def make(tone):\n    prefix = tone + ': '\n    other = '.'\n"
        "    def run(question):\n        return prefix + question + other\n"
        "    return run\nanswer = make('kind')\n",
        "def make(tone):\n    start = tone + ': '\n    an_end = '.'\n"
        "    def run(question):\n        return start + question + an_end\n"
        "    return run\nanswer = make('kind')\n",
    ),
    swap(
        "a function in another module that nobody calls",
        """
        from lib import helper

        def answer(question):
            return helper(question)
        """,
        "text * 2",
        "text * 3",
        file="lib.py",
        lib="def helper(text):\n    return text\n\ndef other(text):\n    return text * 2\n",
    ),
    swap(
        "a constant that nobody reads, in a module that is used whole",
        """
        import lib

        def answer(question):
            return lib.helper(question)
        """,
        "gpt-1",
        "gpt-2",
        file="lib.py",
        lib="MODEL = 'gpt-1'\n\ndef helper(text):\n    return text\n",
    ),
    swap(
        "a comment in a module that a function imports",
        """
        def answer(question):
            from prompts import SYSTEM
            return SYSTEM + question
        """,
        "# one",
        "# two",
        file="prompts.py",
        prompts='# one\nSYSTEM = "be kind"\n',
    ),
    swap(
        "a comment and a hint in a module that is searched by a computed name",
        """
        import prompts

        def answer(question):
            return getattr(prompts, "SYS" + "TEM") + question
        """,
        "SYSTEM =",
        "# the one\nSYSTEM: str =",
        file="prompts.py",
        prompts='SYSTEM = "be kind"\n',
    ),
    Edit(
        "a module that nobody imports",
        {"app.py": "def answer(question):\n    return question\n"},
        {"logs.py": "import logging\n\nlogging.basicConfig()\n"},
    ),
    Edit(
        "the code lies in another folder",
        {
            "one/flow.py": "from texts import SYSTEM\n\ndef answer(question):\n"
            "    return SYSTEM + question\n",
            "one/texts.py": _SYSTEM,
            "two/flow.py": "from texts import SYSTEM\n\ndef answer(question):\n"
            "    return SYSTEM + question\n",
            "two/texts.py": _SYSTEM,
        },
        entry="flow:answer",
        environment=({"PYTHONPATH": "one"}, {"PYTHONPATH": "two"}),
    ),
    Edit(
        "another seed for hashes, under sets in values and in code",
        {
            "app.py": "STOP = {'a', 'b', 'c', 'd', 'e'}\n"
            "FROZEN = {'words': frozenset({'one', 'two', 'three', ('a', 'b')})}\n"
            "def answer(question):\n"
            "    found = question in {'x', 'y', 'z', 'w'} or question in STOP\n"
            "    return found or question in FROZEN['words']\n"
        },
        environment=({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2"}),
    ),
    Edit(
        "another seed for hashes, under a set of functions and a set of instances",
        {
            "app.py": dedent("""
                class Tool:
                    def __init__(self, name):
                        self.name = name

                def one(text):
                    return text + "1"

                def two(text):
                    return text + "2"

                TOOLS = {Tool(name) for name in "abcdefgh"}
                FUNCTIONS = {one, two}

                def answer(question):
                    names = sorted(tool.name for tool in TOOLS)
                    return names + sorted(one(question) for one in FUNCTIONS)
            """)
        },
        environment=({"PYTHONHASHSEED": "1"}, {"PYTHONHASHSEED": "2"}),
    ),
    Edit(
        "a secret that was read into a global",
        {
            "app.py": dedent("""
                import os

                API_KEY = os.environ["OPENAI_API_KEY"]

                def answer(question):
                    return bool(API_KEY), question
            """)
        },
        environment=(
            {"OPENAI_API_KEY": "sk-aaaaaaaaaaaaaaaa"},
            {"OPENAI_API_KEY": "sk-bbbbbbbbbbbbbbbb"},
        ),
    ),
    Edit(
        "a secret that a client keeps under another name and in its headers",
        {
            "app.py": dedent("""
                import os

                class Client:
                    def __init__(self, api_key):
                        self.credential = api_key
                        self.headers = {"Authorization": "Bearer " + api_key}

                    def ask(self, question):
                        return question

                client = Client(os.environ["OPENAI_API_KEY"])

                def answer(question):
                    return client.ask(question)
            """)
        },
        environment=(
            {"OPENAI_API_KEY": "sk-aaaaaaaaaaaaaaaa"},
            {"OPENAI_API_KEY": "sk-bbbbbbbbbbbbbbbb"},
        ),
    ),
    swap(
        "a key in a dict in a list of models",
        """
        MODELS = [{"name": "gpt-1", "api_key": "sk-1"}]

        def answer(question):
            return MODELS[0]["name"] + question
        """,
        "sk-1",
        "sk-2",
    ),
    swap(
        "a SecretStr in a pydantic model",
        """
        from pydantic import BaseModel, SecretStr

        class Settings(BaseModel):
            model: str
            login: SecretStr

        SETTINGS = Settings(model="gpt-1", login="sk-1")

        def answer(question):
            return SETTINGS.model + question
        """,
        "sk-1",
        "sk-2",
    ),
    Edit(
        "the user and the host",
        {
            "app.py": "import os\ndef answer(question):\n"
            "    os.environ.get('HOSTNAME')\n    os.getenv('USER')\n    return question\n"
        },
        environment=({"USER": "ada", "HOSTNAME": "a"}, {"USER": "bob", "HOSTNAME": "b"}),
    ),
    Edit(
        "a variable that nobody reads",
        {
            "app.py": "import os\ndef answer(question):\n"
            "    return os.environ.get('MODEL', '') + question\n"
        },
        environment=({"OTHER": "a"}, {"OTHER": "b"}),
    ),
    same(
        "what a closure keeps of this start",
        """
        import time
        import uuid

        def make():
            run = uuid.uuid4().hex
            begun = time.perf_counter()
            def ask(question):
                return f"{run} {begun} {question}"
            return ask

        answer = make()
        """,
    ),
    same(
        "a default that differs at every start",
        """
        import uuid
        from datetime import datetime

        def answer(question, run=uuid.uuid4(), *, day=datetime.now()):
            return f"{run} {day} {question}"
        """,
    ),
    same(
        "ids that a helper in another module makes",
        """
        from ids import fresh

        RUN = fresh()
        NAME = f"run-{fresh()}"

        def answer(question):
            return RUN + NAME + question
        """,
        ids="from uuid import uuid4 as new\n\ndef fresh():\n    return new().hex[:8]\n",
    ),
    same(
        "ids in a dataclass, in a dict and in a class",
        """
        import secrets
        import uuid
        from dataclasses import dataclass, field

        @dataclass
        class Run:
            model: str
            id: str = field(default_factory=lambda: uuid.uuid4().hex)

        class Agent:
            token_of_class = secrets.token_hex(4)

        RUN = Run("gpt-1")
        META = {"trace": uuid.uuid4(), "parts": [secrets.token_urlsafe(4)]}

        def answer(question):
            return f"{RUN.id} {META} {Agent.token_of_class} {question}"
        """,
    ),
    same(
        "a folder for the time being",
        """
        import os
        import tempfile
        from pathlib import Path

        FOLDER = Path(tempfile.mkdtemp()) / "cache"
        TEMPORARY = tempfile.TemporaryDirectory()
        LABEL = f"worker-{os.getpid()}"

        def answer(question):
            return f"{FOLDER} {TEMPORARY.name} {LABEL} {question}"
        """,
    ),
    same(
        "random numbers without a seed",
        """
        import random

        JITTER = random.random()
        RANDOM = random.Random()
        ORDER = random.sample(range(1000), 5)

        def answer(question):
            return f"{JITTER} {RANDOM.random()} {ORDER} {question}"
        """,
    ),
    same(
        "a registry by id()",
        """
        class Tool:
            def __init__(self, name):
                self.name = name

        TOOLS = [Tool("a"), Tool("b")]
        BY_ID = {id(tool): tool for tool in TOOLS}
        MISSING = object()

        def answer(question, default=MISSING):
            return sorted(tool.name for tool in BY_ID.values()), default is MISSING
        """,
    ),
    same(
        "things without a stable form",
        """
        import asyncio
        import logging
        import queue
        import socket
        import sqlite3
        import threading
        import weakref
        from concurrent.futures import ThreadPoolExecutor
        from unittest.mock import Mock

        class Client:
            def __init__(self):
                self.lock = threading.Lock()
                self.pool = ThreadPoolExecutor(2)
                self.socket = socket.socket()
                self.base = sqlite3.connect(":memory:")
                self.queue = queue.Queue()
                self.semaphore = asyncio.Semaphore(3)
                self.log = logging.getLogger(__name__)
                self.mock = Mock()
                self.me = weakref.ref(self)
                self.local = threading.local()
                self.condition = threading.Condition()

            def ask(self, question):
                with self.lock:
                    return question

        client = Client()

        def answer(question):
            return client.ask(question)
        """,
    ),
    same(
        "models, templates, arrays, patterns and caches",
        """
        import functools
        import re
        from enum import Enum

        import attrs
        import jinja2
        import numpy as np
        import tenacity
        from pydantic import BaseModel, Field

        class Tone(Enum):
            KIND = "kind"

        class Ask(BaseModel):
            text: str = Field("", max_length=99)
            tone: Tone = Tone.KIND

        @attrs.define
        class Box:
            item: int = 1

        ENV = jinja2.Environment(loader=jinja2.DictLoader({"a": "{{ x }}"}))
        ENV.get_template("a").render(x=1)
        ROWS = np.arange(9.0)
        WORD = re.compile(r"[a-z]+")

        @functools.lru_cache
        def size(text):
            return len(text)

        size("a")

        @tenacity.retry(stop=tenacity.stop_after_attempt(2))
        def answer(question):
            ask = Ask(text=question[:9])
            shown = ENV.get_template("a").render(x=question)
            found = WORD.findall(question)
            return f"{ask.text} {Box().item} {size(question)} {ROWS.sum()} {found} {shown}"
        """,
    ),
    same(
        "a cyclic structure with default reprs",
        """
        class Node:
            def __init__(self, name, parent=None):
                self.name = name
                self.parent = parent
                self.children = {}
                self.tags = set()
                if parent:
                    parent.children[self] = name
                    parent.tags.add(self)

        root = Node("root")
        nodes = [Node(name, root) for name in "abcdef"]

        def answer(question):
            return sorted(root.children.values()) + [question]
        """,
    ),
    swap(
        "overloads for the type checker",
        _PLAIN.replace("import os\n", "import os\n    from typing import overload\n"),
        "def helper(text):",
        "@overload\n    def helper(text: str) -> int: ...\n    @overload\n"
        "    def helper(text: bytes) -> int: ...\n    def helper(text):",
    ),
    swap(
        "a constant is Final, and a name is only declared",
        _PLAIN.replace("import os\n", "import os\n    from typing import Final\n"),
        'SYSTEM = "be',
        'LATER: int\n    SYSTEM: Final = "be',
    ),
    swap(
        "hints of a nested function and of starred arguments",
        "def answer(*given, **named):\n    def inner(text, n=1):\n"
        "        return text * n\n    return inner(given[0])\n",
        "def answer(*given, **named):\n    def inner(text, n=1):",
        "def answer(*given: str, **named: int) -> str:\n"
        "    def inner(text: str, n: int = 1) -> str:",
    ),
    swap(
        "a hint of a class that only hints import",
        "def answer(question):\n    return question\n",
        "def answer(question):",
        "from shapes import Question\n\ndef answer(question: Question) -> 'Question':",
        shapes="class Question(str):\n    pass\n",
    ),
    swap(
        "__all__ and a version that nobody reads",
        _PLAIN,
        "import json\n",
        'import json\n\n    __all__ = ["answer"]\n    __version__ = "2"\n',
    ),
    swap(
        "a logger that nobody uses",
        _PLAIN,
        "import json\n",
        "import json\n    import logging\n\n    log = logging.getLogger(__name__)\n",
    ),
    app(
        "the ends of lines",
        "P = '''be\nkind'''\ndef answer(question):\n    '''Doc.'''\n"
        "    return P + '''a\nb''' + question\n",
        "P = '''be\r\nkind'''\r\ndef answer(question):\r\n    '''Doc.'''\r\n"
        "    return P + '''a\r\nb''' + question\r\n",
    ),
    app(
        "lambdas get a line each, and comments",
        "T = {'a': lambda text: text + '1', 'b': lambda text: text + '2'}\n"
        "def answer(question):\n    return T['b'](question)\n",
        "T = {\n    # first\n    'a': lambda text: text + '1',\n"
        "    'b': lambda text: (\n        text + '2'  # second\n    ),\n}\n"
        "def answer(question):\n    return T['b'](question)\n",
    ),
    app(
        "a renamed variable in a comprehension of the module",
        "X = {one: one * 2 for one in 'ab'}\ndef answer(question):\n    return X.get(question)\n",
        "X = {letter: letter * 2 for letter in 'ab'}\ndef answer(question):\n"
        "    return X.get(question)\n",
    ),
    app(
        "renamed locals in an asynchronous generator and a nested comprehension",
        "async def rows(text):\n    for row in text:\n"
        "        yield [[cell for cell in row] for _ in row]\n"
        "async def answer(question):\n"
        "    return [row async for row in rows(question)]\n",
        "async def rows(text):\n    for line in text:\n"
        "        yield [[one for one in line] for other in line]\n"
        "async def answer(question):\n"
        "    return [x async for x in rows(question)]\n",
    ),
    app(
        "a renamed nonlocal",
        "def answer(question):\n    count = 0\n    def more():\n"
        "        nonlocal count\n        count += 1\n    more()\n"
        "    return count\n",
        "def answer(question):\n    seen = 0\n    def more():\n"
        "        nonlocal seen\n        seen += 1\n    more()\n"
        "    return seen\n",
    ),
    same(
        "ids in a partial, in a value of this thread and in an argument of a decorator",
        """
        import functools
        import threading
        import time
        import uuid

        LOCAL = threading.local()
        LOCAL.id = uuid.uuid4().hex

        def traced(run):
            def around(function):
                @functools.wraps(function)
                def wrapper(question):
                    return f"{run} {function(question)}"
                return wrapper
            return around

        def ask(question, run):
            return f"{run} {LOCAL.id} {question}"

        begun = functools.partial(ask, run=time.time_ns())

        @traced(uuid.uuid4().hex)
        def answer(question):
            return begun(question)
        """,
    ),
    same(
        "a generator, an iterator, an error and a count that wait",
        """
        import itertools

        def numbers():
            yield from range(9)

        STREAM = numbers()
        LETTERS = iter(["a", "b"])
        COUNT = itertools.count()
        FAILED = ValueError("kind")

        def answer(question):
            return [STREAM, LETTERS, COUNT, FAILED] and question
        """,
    ),
    Edit(
        "an argument beside an id in one dict, started again with the same argument",
        {
            "app.py": dedent("""
                import sys
                import uuid

                RUN = {"id": uuid.uuid4().hex, "model": sys.argv[1]}

                def answer(question):
                    return RUN["model"] + question
            """)
        },
        arguments=(("gpt-1",), ("gpt-1",)),
    ),
]
