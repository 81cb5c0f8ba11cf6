"""The table of edits. Which of them must run again, and which must not?"""

from textwrap import dedent

from identity.edits import Edit, app, swap

_AGENT = """
    class Agent:
        def __init__(self, prompt):
            self.prompt = prompt

        def run(self, question):
            return self.prompt + question

    planner = Agent("plan: ")
    writer = Agent("write: ")

    def answer(question):
        return writer.run(planner.run(question))
"""
_RETRY = """
    import functools

    SUFFIX = "!"

    def retry(times):
        def around(function):
            @functools.wraps(function)
            def wrapper(*given):
                for _ in range(times):
                    value = function(*given)
                return value
            return wrapper
        return around

    class Agent:
        @retry(2)
        def run(self, question):
            return question + SUFFIX

    agent = Agent()

    def answer(question):
        return agent.run(question)
"""

RERUN: list[Edit] = [
    swap("the first of two instances of one class", _AGENT, '"plan: "', '"think: "'),
    swap("the second of two instances of one class", _AGENT, '"write: "', '"say: "'),
    swap("a method of the class of an instance", _AGENT, "self.prompt + q", "self.prompt * 2 + q"),
    swap(
        "the second of two partials of one function",
        """
        from functools import partial

        def ask(model, question):
            return model + question

        first, second = partial(ask, "a"), partial(ask, "b")

        def answer(question):
            return first(question) + second(question)
        """,
        'partial(ask, "b")',
        'partial(ask, "c")',
    ),
    swap(
        "the second of two closures of one factory",
        """
        def make(model):
            def ask(question):
                return model + question
            return ask

        first, second = make("a"), make("b")

        def answer(question):
            return first(question) + second(question)
        """,
        'make("b")',
        'make("c")',
    ),
    swap(
        "a name that two modules have",
        """
        import pa
        import pb

        def answer(question):
            return pa.SYSTEM + pb.SYSTEM + question
        """,
        '"two"',
        '"three"',
        file="pb.py",
        pa='SYSTEM = "one"\n',
        pb='SYSTEM = "two"\n',
    ),
    Edit(
        "a global that is set from the arguments",
        {
            "app.py": "import sys\n"
            "MODEL = None\n"
            "def main():\n    global MODEL\n    MODEL = sys.argv[1]\n"
            "def answer(question):\n    return MODEL + question\n"
            "def build():\n    main()\n    return answer\n"
        },
        entry="app:build",
        arguments=(("gpt-1",), ("gpt-2",)),
    ),
    Edit(
        "a dict that is filled from the arguments",
        {
            "app.py": "import sys\n"
            "CFG = {}\n"
            "def configure():\n    CFG['model'] = sys.argv[1]\n"
            "def answer(question):\n    return CFG['model'] + question\n"
            "def build():\n    configure()\n    return answer\n"
        },
        entry="app:build",
        arguments=(("gpt-1",), ("gpt-2",)),
    ),
    swap(
        "a function in a registry that a decorator fills",
        """
        TOOLS = {}

        def register(function):
            TOOLS[function.__name__] = function
            return function

        @register
        def search(question):
            return question + "?"

        def answer(question):
            return TOOLS["search"](question)
        """,
        '+ "?"',
        '+ "!"',
    ),
    swap(
        "a registry that is filled by calls",
        """
        PROMPTS = {}

        def register(name, text):
            PROMPTS[name] = text

        register("system", "be kind")

        def answer(question):
            return PROMPTS["system"] + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "an instance of a class with a setter",
        """
        class Agent:
            def __init__(self, model):
                self.model = model

            def use(self, model):
                self.model = model

            def run(self, question):
                return self.model + question

        agent = Agent("1")

        def answer(question):
            return agent.run(question)
        """,
        'Agent("1")',
        'Agent("2")',
    ),
    swap(
        "a global whose name is an augmented local of another function",
        """
        text = "be kind"

        def unrelated(rows):
            text = ""
            for row in rows:
                text += row
            return text

        def answer(question):
            return text + question
        """,
        "be kind",
        "be rude",
    ),
    swap("a global that a method under a decorator uses", _RETRY, '"!"', '"?"'),
    swap("the body of a decorator of a method", _RETRY, "return value", "return value.upper()"),
    swap("the argument of a decorator of a method", _RETRY, "@retry(2)", "@retry(3)"),
    swap(
        "a method of a dataclass",
        """
        from dataclasses import dataclass

        @dataclass
        class Prompt:
            text: str

            def fill(self, question):
                return self.text + question

        PROMPT = Prompt("be kind")

        def answer(question):
            return PROMPT.fill(question)
        """,
        "self.text + question",
        "question + self.text",
    ),
    swap(
        "a field of a dataclass",
        """
        from dataclasses import dataclass

        @dataclass(frozen=True)
        class Prompt:
            text: str = "be kind"

        PROMPT = Prompt()

        def answer(question):
            return PROMPT.text + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a method of a named tuple",
        """
        from typing import NamedTuple

        class Prompt(NamedTuple):
            text: str

            def fill(self, question):
                return self.text + question

        PROMPT = Prompt("be kind")

        def answer(question):
            return PROMPT.fill(question)
        """,
        "self.text + question",
        "question + self.text",
    ),
    swap(
        "a method of an enum",
        """
        from enum import Enum

        class Style(Enum):
            KIND = "kind"

            def fill(self, question):
                return self.value + question

        def answer(question):
            return Style.KIND.fill(question)
        """,
        "self.value + question",
        "question + self.value",
    ),
    swap(
        "the value of an enum's member",
        """
        from enum import Enum

        class Style(Enum):
            KIND = "kind"

        def answer(question):
            return Style.KIND.value + question
        """,
        'KIND = "kind"',
        'KIND = "very kind"',
    ),
    swap(
        "a method of a pydantic model",
        """
        from pydantic import BaseModel

        class Prompt(BaseModel):
            text: str

            def fill(self, question):
                return self.text + question

        PROMPT = Prompt(text="be kind")

        def answer(question):
            return PROMPT.fill(question)
        """,
        "self.text + question",
        "question + self.text",
    ),
    swap(
        "a field's default in a pydantic model",
        """
        from pydantic import BaseModel

        class Prompt(BaseModel):
            text: str = "be kind"

        def answer(question):
            return Prompt().text + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a default that comes from a global, in a pydantic model",
        """
        from pydantic import BaseModel

        TEXT = "be kind"

        class Prompt(BaseModel):
            text: str = TEXT

        def answer(question):
            return Prompt().text + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a default that is a list",
        """
        WORDS = ["be", "kind"]

        def answer(question, words=WORDS):
            return " ".join(words) + question
        """,
        '"kind"]',
        '"rude"]',
    ),
    swap(
        "a private attribute of a class",
        """
        class Agent:
            _system = "be kind"

            def __call__(self, question):
                return self._system + question

        answer = Agent()
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a function as an attribute of a class",
        """
        def loud(text):
            return text.upper()

        class Agent:
            shape = staticmethod(loud)

            def __call__(self, question):
                return self.shape(question)

        answer = Agent()
        """,
        "text.upper()",
        "text.lower()",
    ),
    swap(
        "a module that an import inside a function imports in turn",
        """
        def answer(question):
            import first
            return first.ask(question)
        """,
        '"be kind"',
        '"be rude"',
        file="second.py",
        first="from second import SYSTEM\n\ndef ask(question):\n    return SYSTEM + question\n",
        second='SYSTEM = "be kind"\n',
    ),
    swap(
        "a deque",
        """
        from collections import deque

        TURNS = deque(["be kind"])

        def answer(question):
            return TURNS[0] + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a range",
        """
        TIMES = range(3)

        def answer(question):
            return question * len(TIMES)
        """,
        "range(3)",
        "range(4)",
    ),
    swap(
        "a context variable",
        """
        from contextvars import ContextVar

        SYSTEM = ContextVar("system", default="be kind")

        def answer(question):
            return SYSTEM.get() + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "an attribute of a function",
        """
        def answer(question):
            return answer.system + question

        answer.system = "be kind"
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a metaclass",
        """
        class Meta(type):
            def __call__(cls, *given):
                made = super().__call__(*given)
                made.system = "be kind"
                return made

        class Agent(metaclass=Meta):
            def run(self, question):
                return self.system + question

        def answer(question):
            return Agent().run(question)
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a module under a local alias",
        """
        import prompts

        def answer(question):
            texts = prompts
            return texts.SYSTEM + question
        """,
        "be kind",
        "be rude",
        file="prompts.py",
        prompts='SYSTEM = "be kind"\n',
    ),
    Edit(
        "a variable of the environment",
        {"app.py": "import os\ndef answer(question):\n    return os.environ['MODEL'] + question\n"},
        environment=({"MODEL": "gpt-1"}, {"MODEL": "gpt-2"}),
    ),
    Edit(
        "a variable of the environment, by getenv and another name",
        {
            "app.py": "from os import getenv as read\n"
            "def answer(question):\n    return read('MODEL', '') + question\n"
        },
        environment=({"MODEL": "gpt-1"}, {"MODEL": "gpt-2"}),
    ),
    swap(
        "a docstring that is a prompt",
        '''
        def system():
            """Be kind."""

        def answer(question):
            return system.__doc__ + question
        ''',
        "Be kind.",
        "Be rude.",
    ),
    swap(
        "a docstring that a decorator reads",
        '''
        TOOLS = []

        def tool(function):
            TOOLS.append(function.__doc__)
            return function

        @tool
        def search(question):
            """Search for it."""

        def answer(question):
            return TOOLS[0] + question
        ''',
        "Search for it.",
        "Look for it.",
    ),
    swap(
        "a docstring of a function that is handed over",
        '''
        def search(question):
            """Search for it."""

        def describe(tools):
            return [getattr(one, "__do" + "c__") for one in tools]

        def answer(question):
            return describe([search])[0] + question
        ''',
        "Search for it.",
        "Look for it.",
    ),
    swap(
        "a global found by a computed name",
        """
        KIND = "be kind"
        RUDE = "be rude"

        def answer(question):
            return globals()["KI" + "ND"] + question
        """,
        'KIND = "be kind"',
        'KIND = "be very kind"',
    ),
    swap(
        "a name in a module, found by a computed name",
        """
        import prompts

        def answer(question):
            return getattr(prompts, "SYS" + "TEM") + question
        """,
        "be kind",
        "be rude",
        file="prompts.py",
        prompts='SYSTEM = "be kind"\n',
    ),
    swap(
        "a module imported by a computed name",
        """
        import importlib

        def answer(question):
            return importlib.import_module("pro" + "mpts").SYSTEM + question
        """,
        "be kind",
        "be rude",
        file="prompts.py",
        prompts='SYSTEM = "be kind"\n',
    ),
    app(
        "the comparison of a literal in nested code",
        "def answer(question):\n    def inner():\n        return 1\n    return inner()\n",
        "def answer(question):\n    def inner():\n        return True\n    return inner()\n",
    ),
    app(
        "a tuple that becomes a list",
        "X = (1, 2)\ndef answer(question):\n    return f'{X}'\n",
        "X = [1, 2]\ndef answer(question):\n    return f'{X}'\n",
    ),
    app(
        "the name of a keyword parameter",
        "def answer(question):\n    return question\n",
        "def answer(context):\n    return context\n",
    ),
    app(
        "two locals that change places",
        "def answer(question):\n    a = 1\n    b = 2\n    return f'{a}'\n",
        "def answer(question):\n    a = 1\n    b = 2\n    return f'{b}'\n",
    ),
    swap(
        "a path",
        """
        from pathlib import Path

        PROMPT = Path(__file__).parent / "one.txt"

        def answer(question):
            return PROMPT.read_text() + question
        """,
        "one.txt",
        "two.txt",
    ),
    swap(
        "a base class in another module",
        """
        from base import Base

        class Agent(Base):
            pass

        def answer(question):
            return Agent().run(question)
        """,
        "be kind",
        "be rude",
        file="base.py",
        base="class Base:\n    def run(self, question):\n        return 'be kind' + question\n",
    ),
    swap(
        "a lambda in a dict",
        """
        TOOLS = {"a": lambda text: text + "1", "b": lambda text: text + "2"}

        def answer(question):
            return TOOLS["b"](question)
        """,
        '+ "2"',
        '+ "3"',
    ),
    swap(
        "a property",
        """
        class Agent:
            @property
            def system(self):
                return "be kind"

            def __call__(self, question):
                return self.system + question

        answer = Agent()
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a value behind a cache",
        """
        import functools

        @functools.lru_cache
        def system():
            return "be kind"

        def answer(question):
            return system() + question
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a template of jinja2",
        """
        import jinja2

        SYSTEM = jinja2.Template("be kind, {{ name }}")

        def answer(question):
            return SYSTEM.render(name=question)
        """,
        "be kind",
        "be rude",
    ),
    swap(
        "a method under the retry of tenacity",
        """
        import tenacity

        SUFFIX = "!"

        class Agent:
            @tenacity.retry(stop=tenacity.stop_after_attempt(2))
            def run(self, question):
                return question + SUFFIX

        agent = Agent()

        def answer(question):
            return agent.run(question)
        """,
        '"!"',
        '"?"',
    ),
]

RERUN += [
    swap(
        f"what a {kind} shows",
        f"""
        KEPT = {{"a": 1}}
        X = {value}

        def answer(question):
            return f"{{list(X)}} {{question}}"
        """,
        '"a"',
        '"b"',
    )
    for kind, value in (("view of keys", "KEPT.keys()"), ("view of items", "KEPT.items()"))
]
RERUN += [
    swap(
        "a function of one's own as a method of a library's class",
        """
        import json

        def default(self, thing):
            return "kind"

        json.JSONEncoder.default = default

        def answer(question):
            return json.dumps(object()) + question
        """,
        '"kind"',
        '"rude"',
    ),
    swap(
        "what the module does to a library when it is imported",
        """
        import decimal

        decimal.getcontext().prec = 3

        def answer(question):
            return str(decimal.Decimal(1) / 3) + question
        """,
        "= 3",
        "= 5",
    ),
    swap(
        "a class in a union",
        """
        class Kind:
            pass

        class Rude:
            pass

        X = int | Kind

        def answer(question):
            return isinstance(question, X)
        """,
        "int | Kind",
        "int | Rude",
    ),
    swap(
        "a method of a path of one's own",
        """
        from pathlib import PosixPath

        class Folder(PosixPath):
            def shown(self):
                return "kind"

        X = Folder("a")

        def answer(question):
            return X.shown() + question
        """,
        '"kind"',
        '"rude"',
    ),
    Edit(
        "an argument put into an object that has an id of its own",
        {
            "app.py": dedent("""
                import sys
                import uuid

                class Config:
                    def __init__(self, run):
                        self.run = run
                        self.model = "gpt-1"

                CONFIG = Config(uuid.uuid4().hex)

                def main():
                    CONFIG.model = sys.argv[1]

                main()

                def answer(question):
                    return CONFIG.model + question
            """)
        },
        arguments=(("gpt-1",), ("gpt-2",)),
    ),
]

_BASE = '''
    import json
    import os

    SYSTEM = "be kind"

    def fill(text, question):
        """Fill it in."""
        whole = text + question
        return whole

    def answer(question):
        """Answer."""
        filled = fill(SYSTEM, question)
        words = [word for word in filled.split()]
        return f"{len(words)} {filled!r}"
'''

KEEP: list[Edit] = [
    swap("a comment", _BASE, "SYSTEM = ", "# why\n    SYSTEM = "),
    swap(
        "layout",
        _BASE,
        "fill(SYSTEM, question)",
        "fill(\n            SYSTEM,\n            question,\n        )",
    ),
    swap(
        "type hints",
        _BASE,
        "def fill(text, question):",
        "def fill(text: str, question: str) -> str:",
    ),
    swap("the type hint of a local", _BASE, "whole = text", "whole: str = text"),
    swap("the name of a local", _BASE, "filled", "full"),
    swap("the name of a variable in a comprehension", _BASE, "word for word", "one for one"),
    swap("a docstring", _BASE, "Fill it in.", "Fill it in, please."),
    swap("the order of imports", _BASE, "import json\n    import os", "import os\n    import json"),
    swap("an import that nobody uses", _BASE, "import json\n", "import json\n    import re\n"),
    swap(
        "a function that nobody uses",
        _BASE,
        "SYSTEM = ",
        "def other():\n        return 1\n\n    SYSTEM = ",
    ),
    Edit(
        "a secret in the environment",
        {
            "app.py": "import os\ndef answer(question):\n"
            "    return os.environ['OPENAI_API_KEY'] and question\n"
        },
        environment=({"OPENAI_API_KEY": "a"}, {"OPENAI_API_KEY": "b"}),
    ),
    Edit(
        "a logger, a pool of threads and the environment as a whole",
        {
            "app.py": dedent("""
                import logging
                import os
                from concurrent.futures import ThreadPoolExecutor

                LOG = logging.getLogger(os.environ["TMPDIR"])
                POOL = ThreadPoolExecutor(int(os.environ["LINES"]))
                ALL = os.environ

                def answer(question):
                    LOG.info(POOL)
                    return ALL and question
            """)
        },
        environment=(
            {"TMPDIR": "/a", "LINES": "3", "OTHER": "1"},
            {"TMPDIR": "/b", "LINES": "4", "OTHER": "2"},
        ),
    ),
    Edit(
        "what belongs to the machine",
        {
            "app.py": "import os\ndef answer(question):\n"
            "    return os.environ['TMPDIR'] and question\n"
        },
        environment=({"TMPDIR": "/a"}, {"TMPDIR": "/b"}),
    ),
    swap(
        "a key inside a configuration",
        """
        from dataclasses import dataclass

        @dataclass
        class Settings:
            model: str
            api_key: str

        SETTINGS = Settings("gpt", "sk-1")

        def answer(question):
            return SETTINGS.model + question
        """,
        "sk-1",
        "sk-2",
    ),
    Edit(
        "an id that differs at every start",
        {
            "app.py": "import uuid, time, random, os, tempfile\n"
            "RUN = uuid.uuid4().hex\nSTART = time.time()\nPID = os.getpid()\n"
            "FOLDER = tempfile.mkdtemp()\nSENTINEL = object()\n"
            "class Agent:\n    def __init__(self):\n        self.id = uuid.uuid4()\n"
            "agent = Agent()\n"
            "def answer(question):\n"
            "    return f'{RUN}{START}{PID}{FOLDER}{SENTINEL}{agent.id}{question}'\n"
        },
    ),
]
