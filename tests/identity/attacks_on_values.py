"""More edits: what stands under a secret's name, what chance makes, code without source, room."""

from dataclasses import replace
from textwrap import dedent

from identity.edits import Edit, app, swap


def _v(name: str, text: str, *, file: str = "app.py", **others: str) -> Edit:
    """Return an edit of `v1` to `v2`."""
    return swap(name, text, "v1", "v2", file=file, **others)


def _same(name: str, text: str) -> Edit:
    """Return no edit but a comment."""
    return app(name, text, dedent(text) + "\n# a comment\n")


def _without_source(name: str, text: str, **others: str) -> Edit:
    """Return an edit of a module that code without source imports, or of that code."""
    file = "helper.py" if "helper" in others else "app.py"
    return _v(name, f"import os\nexec({text!r})\n", file=file, **others)


RERUN: list[Edit] = [
    _v(
        "a prompt below a key of a dict that looks like a secret's",
        "PROMPTS = {'password': {'system': 'You are v1, and kind.'}}\n"
        "def answer(q): return PROMPTS['password']['system'] + q\n",
    ),
    _v(
        "a prompt deep below a key that looks like a secret's",
        "P = {'credentials': [{'a': {'b': {'c': {'d': ['Reset it in v1 steps.']}}}}]}\n"
        "def answer(q): return P['credentials'][0]['a']['b']['c']['d'][0] + q\n",
    ),
    _v(
        "a constant with a secret's name that is prose",
        "OUR_SECRET = 'We always say v1 first.'\ndef answer(q): return OUR_SECRET + q\n",
    ),
    _v(
        "a prompt in an object of a library's, under a secret's name",
        "from types import SimpleNamespace\n"
        "TOPICS = SimpleNamespace(access_token='Explain tokens in v1 words.')\n"
        "def answer(q): return TOPICS.access_token + q\n",
    ),
    _v(
        "a name in a string that annotates a plain class",
        "from typing import Literal, get_type_hints\nMood = Literal['v1', 'sad']\n"
        "class Reply:\n    mood: 'Mood'\n"
        "def answer(q): return str(get_type_hints(Reply)) + q\n",
    ),
    _v(
        "a hint of a plain class with postponed annotations",
        "from __future__ import annotations\nfrom typing import Literal, get_type_hints\n"
        "class Reply:\n    mood: Literal['v1', 'sad']\n"
        "def answer(q): return str(get_type_hints(Reply)) + q\n",
    ),
    _v(
        "what a name in the hint of a plain class with postponed annotations stands for",
        "from __future__ import annotations\nfrom typing import Literal, get_type_hints\n"
        "Mood = Literal['v1', 'sad']\nclass Reply:\n    mood: Mood\n"
        "def answer(q): return str(get_type_hints(Reply)) + q\n",
    ),
    Edit(
        "prose in a variable with a secret's name",
        {"app.py": "import os\ndef answer(q): return os.environ['GAME_SECRET'] + q\n"},
        environment=({"GAME_SECRET": "the word is v1"}, {"GAME_SECRET": "the word is v2"}),
    ),
    *(
        Edit(
            f"a variable with a computed name: {name}",
            {"app.py": f"import os\ndef answer(q): return os.environ.get({code}, '') + q\n"},
            environment=({name: "v1"}, {name: "v2"}),
        )
        for name, code in (
            ("bot_model", "f'bot_{q}'"),
            ("Model_mine", "'Model_' + q"),
            ("xmodel", "'x' + q"),
        )
    ),
    _v(
        "a function whose name ends like a secret's",
        "def guess_password(q): return 'v1' + q\ndef answer(q): return guess_password(q)\n",
    ),
    _v(
        "a workflow whose name is a secret's",
        "def guess_password(q): return 'v1' + q\nanswer = guess_password\n",
    ),
    _v(
        "a function in a cache, under a secret's name",
        "from functools import cache\n@cache\ndef get_secret(): return 'v1'\n"
        "def answer(q): return get_secret() + q\n",
    ),
    _v(
        "a value behind a function that loads a secret",
        "MODEL = 'v1'\ndef load_secret(): return {'model': MODEL}\n"
        "def answer(q): return load_secret()['model'] + q\n",
    ),
    _v(
        "a method under a secret's name",
        "class Agent:\n    def guess_secret(self, q): return 'v1' + q\n"
        "def answer(q): return Agent().guess_secret(q)\n",
    ),
    _v(
        "a tool under a secret's name in a dict",
        "TOOLS = {'guess_password': lambda q: 'v1' + q}\n"
        "def answer(q): return TOOLS['guess_password'](q)\n",
    ),
    _v(
        "tools in a list under a secret's name",
        "secret = [lambda q: 'v1' + q]\ndef answer(q): return secret[0](q)\n",
    ),
    _v(
        "a partial whose keyword is a function under a secret's name",
        "from functools import partial\ndef game(q, secret): return secret() + q\n"
        "def word(): return 'v1'\nanswer = partial(game, secret=word)\n",
    ),
    _v(
        "an instance under a secret's name",
        "class Puzzle:\n    def __init__(self, word): self.word = word\n"
        "secret = Puzzle('v1')\ndef answer(q): return secret.word + q\n",
    ),
    swap(
        "a number under a secret's name",
        "secret = 7\ndef answer(q): return q * secret\n",
        "7",
        "8",
    ),
    _v(
        "a text that was given in the place of one with the date",
        """
        from datetime import date

        class Agent:
            def __init__(self, system=None):
                self.system = system or f"You help. Today is {date.today()}"

        AGENT = Agent("v1")

        def answer(question):
            return AGENT.system + question
        """,
    ),
    swap(
        "a date that was given in the place of today",
        """
        from dataclasses import dataclass, field
        from datetime import date

        @dataclass
        class Context:
            today: str = field(default_factory=lambda: date.today().isoformat())

        CONTEXT = Context(today="2024-01-01")

        def answer(question):
            return CONTEXT.today + question
        """,
        "2024",
        "2025",
    ),
    swap(
        "an id that was given in the place of a new one",
        """
        import uuid

        class Agent:
            def __init__(self, revision=None):
                self.revision = revision or uuid.uuid4().hex

        AGENT = Agent("9f3c2ab41d")

        def answer(question):
            return AGENT.revision + question
        """,
        "9f3c",
        "8f3c",
    ),
    _v(
        "a text that a factory got in the place of an id",
        """
        import uuid

        def make(style=None):
            style = style or uuid.uuid4().hex
            def answer(question):
                return style + question
            return answer

        answer = make("v1")
        """,
    ),
    _v(
        "a date that another module sets",
        "from day import TODAY\nimport day\nimport settings\n"
        "def answer(question): return day.TODAY + question\n",
        file="settings.py",
        day="from datetime import date\nTODAY = date.today().isoformat()\n",
        settings="import day\nday.TODAY = 'v1'\n",
    ),
    _v(
        "an attribute that a factory sets after a time was",
        """
        import time

        class Agent:
            def __init__(self):
                self.now = time.time()

        def build():
            agent = Agent()
            agent.now = "v1"
            return agent

        AGENT = build()

        def answer(question):
            return AGENT.now + question
        """,
    ),
    Edit(
        "a file that an object with an id read",
        {
            "app.py": "import uuid\nfrom pathlib import Path\n"
            "class Agent:\n    def __init__(self, run):\n        self.run = run\n"
            "        self.prompt = Path(__file__).with_name('p.txt').read_text()\n"
            "AGENT = Agent(uuid.uuid4().hex)\ndef answer(q): return AGENT.prompt + q\n",
            "p.txt": "v1",
        },
        {"p.txt": "v2"},
    ),
    Edit(
        "a file that a method read which got the time",
        {
            "app.py": "import time\nfrom pathlib import Path\n"
            "class Loader:\n    def load(self, at):\n"
            "        return {'p': Path(__file__).with_name('p.txt').read_text(), 'at': 0}\n"
            "LOADER = Loader()\nCONFIG = LOADER.load(time.time())\n"
            "def answer(q): return CONFIG['p'] + q\n",
            "p.txt": "v1",
        },
        {"p.txt": "v2"},
    ),
    _v(
        "a value beside very many objects of a library's",
        "from argparse import Namespace\nDOCS = [Namespace(text=str(n)) for n in range(6000)]\n"
        "MODEL = Namespace(name='v1')\ndef answer(q): return DOCS[0].text + MODEL.name + q\n",
    ),
    _v(
        "the last of very many objects of a library's",
        "from argparse import Namespace\nDOCS = [Namespace(text=str(n)) for n in range(6000)]\n"
        "DOCS.append(Namespace(text='v1'))\ndef answer(q): return DOCS[-1].text + q\n",
    ),
    replace(
        _without_source(
            "a variable that code without source reads",
            "def answer(q): return os.environ['TONE'] + q  # v1",
        ),
        after={},
        environment=({"TONE": "v1"}, {"TONE": "v2"}),
    ),
    _without_source(
        "a module that code without source imports when it runs",
        "def answer(q):\n    from helper import M\n    return M + q\n",
        helper="M = 'v1'\n",
    ),
    _without_source(
        "a module that code without source imports by its name",
        "import importlib\ndef answer(q): return importlib.import_module('helper').M + q\n",
        helper="M = 'v1'\n",
    ),
    _without_source(
        "a global that code without source finds by a computed name",
        "_prompt_x = 'v1'\ndef answer(q): return globals()['_prompt_' + 'x'] + q\n",
    ),
    _v(
        "a __hash__ of one's own",
        "class Key:\n    def __hash__(self): return len('v1') + int('v1'[1])\n"
        "def answer(q): return hash(Key()) * q\n",
    ),
    _v(
        "a __getstate__ of one's own",
        "import pickle\nclass Key:\n    def __getstate__(self): return {'a': 'v1'}\n"
        "def answer(q): return pickle.dumps(Key())\n",
    ),
]
KEEP: list[Edit] = [
    _v(
        "a key with many lines under a secret's name",
        "CLIENT_SECRET = '-----BEGIN PRIVATE KEY-----\\nv1 x\\n'\n"
        "def answer(q): return len(CLIENT_SECRET) * q\n",
    ),
    _v(
        "a hint of a plain class that nobody reads",
        "from typing import Literal\nclass Reply:\n    mood: Literal['v1', 'sad']\n"
        "def answer(q): return Reply() and q\n",
    ),
    Edit(
        "texts under a secret's name, in containers and in objects of a library's",
        {
            "app.py": "from argparse import Namespace\nfrom pathlib import Path\n"
            "API_KEY = Path(__file__).with_name('word.txt').read_text()\n"
            "class Client:\n    def __init__(self, api_key=None):\n"
            "        self.secret = {'first': API_KEY, 'parts': [API_KEY]}\n"
            "        self.client_secret = Namespace(name=API_KEY, inner=[API_KEY])\n"
            "        self.api_key = api_key\n"
            "CLIENT = Client(API_KEY)\n"
            "def answer(q, api_key=API_KEY): return str(vars(CLIENT)) + q\n",
            "word.txt": "a",
        },
        {"word.txt": "b"},
    ),
    _same(
        "an id that an object is given",
        """
        import uuid
        from dataclasses import dataclass

        class Agent:
            def __init__(self, run, model="gpt-1"):
                self.run = run
                self.model = model

        @dataclass
        class Run:
            id: str
            model: str

        AGENT = Agent(uuid.uuid4().hex)
        RUN = Run(id=str(uuid.uuid4()), model="gpt-1")

        def answer(question):
            return AGENT.run + RUN.id + question
        """,
    ),
    _same(
        "times and ids that locals pass on",
        """
        import time
        import uuid
        from datetime import datetime, timezone

        class Agent:
            def __init__(self, run=None):
                begun = time.time()
                self.begun = begun
                self.day = datetime.now(timezone.utc).strftime("%H:%M:%S.%f")
                self.run = run or f"run-{uuid.uuid4().hex[:8]}0"

        AGENT = Agent()
        IDS = [uuid.uuid4().hex for _ in range(3)]

        def answer(question):
            return f"{AGENT.begun} {AGENT.day} {AGENT.run} {IDS} {question}"
        """,
    ),
    Edit(
        "a function under tenacity's retry that was called before",
        {
            "app.py": "from pathlib import Path\nimport tenacity\n"
            "@tenacity.retry(stop=tenacity.stop_after_attempt(2))\n"
            "def ask(q): return q\n"
            "[ask(n) for n in Path(__file__).with_name('calls.txt').read_text()]\n"
            "def answer(q): return ask(q)\n",
            "calls.txt": "",
        },
        {"calls.txt": "xy"},
    ),
]
