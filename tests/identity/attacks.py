"""More edits: what somebody tried who knows how a look is made."""

from identity.edits import Edit, app, swap

_DECIMAL = """
    import decimal

    {}

    def answer(question):
        return str(decimal.Decimal(1) / 3) + question
"""


def _does(name: str, code: str, old: str, new: str, **others: str) -> Edit:
    """Return an edit of what a module does to a library when it is imported."""
    return swap(name, _DECIMAL.format(code.replace("\n", "\n    ")), old, new, **others)


RERUN: list[Edit] = [
    _does(
        "a function that is called at import, for what it does to a library",
        "def setup():\n    decimal.getcontext().prec = 5\n\nsetup()",
        "= 5",
        "= 6",
    ),
    _does(
        "a main() that every import calls",
        "def main():\n    decimal.getcontext().prec = 5\n\nmain()",
        "= 5",
        "= 6",
    ),
    _does(
        "what a loop at import goes over",
        "for name, number in {'prec': 5}.items():\n    setattr(decimal.getcontext(), name, number)",
        "5",
        "6",
    ),
    _does(
        "what decides whether a library is changed at import",
        "EXACT = True\nif EXACT:\n    decimal.getcontext().prec = 50",
        "True",
        "False",
    ),
    _does(
        "a constant that only a call at import names",
        "DIGITS = 5\ndecimal.setcontext(decimal.Context(prec=DIGITS))",
        "= 5",
        "= 6",
    ),
    _does(
        "what a with statement at import does in it",
        "import contextlib\nwith contextlib.suppress(ValueError):\n"
        "    decimal.getcontext().prec = int('5')",
        "'5'",
        "'6'",
    ),
    _does(
        "a module that import_module brings in at import, for its effect",
        "import importlib\nimportlib.import_module('effects')",
        "= 5",
        "= 6",
        file="effects.py",
        effects="import decimal\ndecimal.getcontext().prec = 5\n",
    ),
    _does(
        "what a module does that is imported, and used by nobody who is called",
        "import effects\n\ndef about():\n    return effects.NAME",
        "= 5",
        "= 6",
        file="effects.py",
        effects="import decimal\nNAME = 'x'\ndecimal.getcontext().prec = 5\n",
    ),
    _does(
        "what a class does to a library while it is made",
        "class Setup:\n    decimal.getcontext().prec = 5",
        "= 5",
        "= 6",
    ),
    swap(
        "a function that setattr puts on a class of a library's",
        """
        import json

        def default(self, value):
            return "a"

        setattr(json.JSONEncoder, "default", default)

        def answer(question):
            return json.dumps([question, {1}])
        """,
        '"a"',
        '"b"',
    ),
    swap(
        "a function that a decorator of a library's registers",
        """
        import codecs

        @codecs.register
        def find(name):
            if name == "mine":
                return codecs.CodecInfo(lambda text: (b"a", len(text)), None)
            return None

        def answer(question):
            return question.encode("mine")
        """,
        'b"a"',
        'b"b"',
    ),
    swap(
        "a value in the place of one of a library's",
        """
        import string

        string.punctuation = "!?"

        def answer(question):
            return question.strip(string.punctuation)
        """,
        '"!?"',
        '"!?."',
    ),
    Edit(
        "a value of a library's that is set from the arguments",
        {
            "app.py": "import sys\nimport tempfile\n"
            "def configure():\n    tempfile.tempdir = sys.argv[1]\n"
            "def answer(question):\n    return tempfile.gettempdir() + question\n"
            "def build():\n    configure()\n    return answer\n"
        },
        entry="app:build",
        arguments=(("/a",), ("/b",)),
    ),
    app(
        "a value of a library's that is taken away",
        """
        import string

        string.kept = 1

        def answer(question):
            return hasattr(string, "kept") and question
        """,
        """
        import string

        string.kept = 1
        del string.kept

        def answer(question):
            return hasattr(string, "kept") and question
        """,
    ),
    swap(
        "an argument of a factory beside an id, in one value that is closed over",
        """
        import uuid

        def make(model):
            run = (uuid.uuid4().hex, model)
            def ask(question):
                return run[1] + question
            return ask

        answer = make("a")
        """,
        'make("a")',
        'make("b")',
    ),
    swap(
        "an argument of a class beside an id, in one attribute",
        """
        import uuid

        class Agent:
            def __init__(self, model):
                self.run = (uuid.uuid4().hex, model)

            def ask(self, question):
                return self.run[1] + question

        agent = Agent("a")

        def answer(question):
            return agent.ask(question)
        """,
        'Agent("a")',
        'Agent("b")',
    ),
    app(
        "the name of a nested function that is handed to a helper",
        """
        def described(function):
            return function.__name__

        def answer(question):
            def shout(text):
                return text.upper()
            return described(shout) + question
        """,
        """
        def described(function):
            return function.__name__

        def answer(question):
            def yell(text):
                return text.upper()
            return described(yell) + question
        """,
    ),
    app(
        "the name of a nested function that a library gets",
        """
        def answer(question):
            def shout(text):
                return text.upper()
            return repr([shout]).split(" at ")[0] + question
        """,
        """
        def answer(question):
            def yell(text):
                return text.upper()
            return repr([yell]).split(" at ")[0] + question
        """,
    ),
    app(
        "the name of a model that is defined in a function",
        """
        from pydantic import BaseModel

        def answer(question):
            class Reply(BaseModel):
                text: str
            return str(Reply.model_json_schema()) + question
        """,
        """
        from pydantic import BaseModel

        def answer(question):
            class Answer(BaseModel):
                text: str
            return str(Answer.model_json_schema()) + question
        """,
    ),
    swap(
        "the target of a thread that waits",
        """
        import threading

        found = []

        def work(text):
            found.append(text + "a")

        def answer(question):
            worker.run()
            return found[-1] + question

        worker = threading.Thread(target=work, args=("x",))
        """,
        '+ "a"',
        '+ "b"',
    ),
    swap(
        "the argument for a thread that waits",
        """
        import threading

        found = []
        worker = threading.Thread(target=found.append, args=("x",))

        def answer(question):
            worker.run()
            return found[-1] + question
        """,
        '"x"',
        '"y"',
    ),
    swap(
        "what the threads of a pool begin with",
        """
        import concurrent.futures
        import threading

        here = threading.local()

        def begin(model):
            here.model = model

        pool = concurrent.futures.ThreadPoolExecutor(1, initializer=begin, initargs=("a",))

        def answer(question):
            return pool.submit(lambda: here.model).result() + question
        """,
        '("a",)',
        '("b",)',
    ),
    swap(
        "what a context keeps of a variable",
        """
        import contextvars

        MODEL = contextvars.ContextVar("model")
        MODEL.set("a")
        context = contextvars.copy_context()
        MODEL.set("x")

        def answer(question):
            return context[MODEL] + question
        """,
        'MODEL.set("a")',
        'MODEL.set("b")',
    ),
    swap(
        "a value deep in namespaces that were made from json",
        """
        import json
        from types import SimpleNamespace

        text = '{"a":' * 14 + '"deep"' + "}" * 14
        CONFIG = json.loads(text, object_hook=lambda one: SimpleNamespace(**one))

        def answer(question):
            return str(CONFIG) + question
        """,
        '"deep"',
        '"deeper"',
    ),
    swap(
        "a value deep in dicts of a library's",
        """
        import collections

        CONFIG = "deep"
        for _ in range(14):
            CONFIG = collections.OrderedDict(a=CONFIG)

        def answer(question):
            return str(CONFIG) + question
        """,
        '"deep"',
        '"deeper"',
    ),
    swap(
        "a function deep in objects of a library's",
        """
        import argparse

        def shout(text):
            return text + "a"

        held = shout
        for _ in range(12):
            held = argparse.Namespace(held=held)

        def answer(question):
            one = held
            while isinstance(one, argparse.Namespace):
                one = one.held
            return one(question)
        """,
        '"a"',
        '"b"',
    ),
    swap(
        "the __call__ of a metaclass",
        """
        MODEL = "a"

        class Meta(type):
            def __call__(cls, *given):
                one = super().__call__(*given)
                one.model = MODEL
                return one

        class Agent(metaclass=Meta):
            def ask(self, question):
                return self.model + question

        def answer(question):
            return Agent().ask(question)
        """,
        'MODEL = "a"',
        'MODEL = "b"',
    ),
    swap(
        "a class that a decorator puts in the place of another",
        """
        def loud(mark):
            def around(cls):
                class Loud(cls):
                    def ask(self, question):
                        return super().ask(question) + mark
                return Loud
            return around

        @loud("!")
        class Agent:
            def ask(self, question):
                return question

        def answer(question):
            return Agent().ask(question)
        """,
        '@loud("!")',
        '@loud("?")',
    ),
    swap(
        "the sign of a template of one's own kind",
        """
        import string

        class Prompt(string.Template):
            delimiter = "$"

        PROMPT = Prompt("$q %q")

        def answer(question):
            return PROMPT.safe_substitute(q=question)
        """,
        '"$"\n',
        '"%"\n',
    ),
    swap(
        "how an enum numbers its members",
        """
        from enum import Enum, auto

        class Kind(Enum):
            def _generate_next_value_(name, start, count, last):
                return name.lower()
            GOOD = auto()

        def answer(question):
            return Kind.GOOD.value + question
        """,
        "name.lower()",
        "name.title()",
    ),
    swap(
        "what two flags are together",
        """
        from enum import Flag, auto

        class Mode(Flag):
            FAST = auto()
            LOUD = auto()
            CALM = auto()

        MODE = Mode.FAST | Mode.LOUD

        def answer(question):
            return str(MODE) + question
        """,
        "Mode.FAST | Mode.LOUD",
        "Mode.FAST | Mode.CALM",
    ),
    swap(
        "the instance behind a weak method",
        """
        import weakref

        class Agent:
            def __init__(self, model):
                self.model = model

            def ask(self, question):
                return self.model + question

        agent = Agent("a")
        asking = weakref.WeakMethod(agent.ask)

        def answer(question):
            return asking()(question)
        """,
        'Agent("a")',
        'Agent("b")',
    ),
    swap(
        "a function that a chain of iterators holds",
        """
        import itertools

        def shout(text):
            return text + "a"

        steps = itertools.chain.from_iterable(iter([[shout]]))

        def answer(question):
            for step in steps:
                question = step(question)
            return question
        """,
        '"a"',
        '"b"',
    ),
    swap(
        "a method that __class_getitem__ and a descriptor in another module read",
        """
        from fields import Field

        class Agent:
            model = Field("name")

        def answer(question):
            return Agent().model + question
        """,
        '"a"',
        '"b"',
        file="models.py",
        fields="import models\n\nclass Field:\n"
        "    def __init__(self, key):\n        self.key = key\n\n"
        "    def __get__(self, owner, cls):\n        return models.NAMES[self.key]\n",
        models='NAMES = {"name": "a"}\n',
    ),
    swap(
        "a base of a class that only an annotation in a dataclass names, as a text",
        """
        import dataclasses
        import typing
        from dataclasses import dataclass

        class Tone:
            mark = "a"

        @dataclass
        class Settings:
            tone: "Tone" = None

        def answer(question):
            return typing.get_type_hints(Settings)["tone"].mark + question
        """,
        'mark = "a"',
        'mark = "b"',
    ),
    swap(
        "a class that only the hint of a tool names, from which a schema is made",
        """
        import typing

        class Tone:
            mark = "a"

        def tool(function):
            function.hints = typing.get_type_hints(function)
            return function

        @tool
        def speak(text: Tone):
            return text

        def answer(question):
            return speak.hints["text"].mark + question
        """,
        'mark = "a"',
        'mark = "b"',
    ),
    swap(
        "a class that only a hint names, which is read when it is called",
        """
        import typing

        class Tone:
            mark = "a"

        def speak(text: "Tone"):
            return text

        def answer(question):
            return typing.get_type_hints(speak)["text"].mark + question
        """,
        'mark = "a"',
        'mark = "b"',
    ),
    swap(
        "a warning that becomes an error",
        """
        import warnings

        warnings.simplefilter("error")

        def answer(question):
            try:
                warnings.warn("old")
            except UserWarning:
                return "failed"
            return question
        """,
        '"error"',
        '"ignore"',
    ),
    swap(
        "the text of a prompt that looks like a function",
        '''
        PROMPT = """
Write a function:
def f(x):
    return 1
class A:
    pass
"""

        def answer(question):
            return PROMPT + question
        '''.replace("\n        ", "\n"),
        "return 1",
        "return 2",
    ),
    swap(
        "a function below a text with an odd number of quotes",
        """
        MARK = '"' + "'"
        QUOTES = '\"\"\"'

        def shout(text):
            return text + QUOTES + "a"

        OTHER = "'''" # '''

        def answer(question):
            return shout(question)
        """,
        '+ "a"',
        '+ "b"',
    ),
    swap(
        "a function whose brackets close in the first column",
        """
def shout(
    text,
):
    return (
        text
+ "a"
)

def answer(question):
    return shout(question)
        """,
        '+ "a"',
        '+ "b"',
    ),
]

KEEP: list[Edit] = [
    app(
        "several names get their values in one line",
        """
        import other

        first, second = "a", "b"
        [third, *rest] = "c", "d"

        def answer(question):
            return first + question
        """,
        """
        import other

        first, second = "a", "x"
        [third, *rest] = "y", "d"

        def answer(question):
            return first + question
        """,
        other="",
    ),
    Edit(
        "the environment as a whole, for a child of the process",
        {
            "app.py": "import os\nENV = {**os.environ, 'MODE': 'fast'}\nCOPY = dict(os.environ)\n"
            "def answer(question):\n    return ENV and COPY and question\n"
        },
        environment=(
            {"SHELL_SESSION": "1", "WINDOWID": "7"},
            {"SHELL_SESSION": "2", "WINDOWID": "8"},
        ),
    ),
    swap(
        "an id that is made unless one is given",
        """
        import uuid

        class Agent:
            def __init__(self, model, name=None):
                self.model = model
                self.name = name or uuid.uuid4().hex
                self.run = uuid.uuid4().hex if name is None else name

            def ask(self, question):
                return self.model + question

        agent = Agent("a")

        def answer(question):
            return agent.ask(question)
        """,
        "import uuid\n",
        "import uuid  # for names\n",
    ),
    app(
        "a nested function that is only called or handed back gets another name",
        """
        def make(model):
            def ask(question):
                return model + question
            return ask

        def answer(question):
            return make("a")(question)
        """,
        """
        def make(model):
            def inner(question):
                return model + question
            return inner

        def answer(question):
            return make("a")(question)
        """,
    ),
    app(
        "functions get another order, other lines and a text full of quotes beside them",
        '''
        def shout(text):
            """Say it "loud" """
            return text.upper()

        @staticmethod
        def unused():
            return """
        def
        """

        def answer(question):
            return shout(question)
        ''',
        '''
        # It's "quoted" \'\'\'

        def answer(question):
            # don't
            return shout(question)

        @staticmethod
        def unused():
            return """
        class
        """ + "'"

        def shout(text):
            return (
                text
        .upper()
            )
        ''',
    ),
]
