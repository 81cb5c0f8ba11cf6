"""More edits: what is done to a library at import, and variables read in roundabout ways."""

from textwrap import dedent

from identity.edits import Edit, swap

_LIBRARY = """
    class _Settings:
        llm = "none"

    Settings = _Settings()

    def configure(model):
        Settings.llm = model
        return Settings

    def ask(question):
        return Settings.llm + question
"""
_APP = """import fakellm
from fakellm import Settings
{}

def answer(question):
    return fakellm.ask(question)
"""
_AT = {"PYTHONPATH": "site-packages"}


def _does(name: str, code: str, old: str = "m1", new: str = "m2") -> Edit:
    """Return an edit of what a module does when it is imported."""
    before = _APP.format(code)
    assert old in before, name
    files = {"app.py": before, "site-packages/fakellm.py": dedent(_LIBRARY)}
    after = {"app.py": before.replace(old, new)}
    return Edit(name, files, after, environment=(_AT, _AT))


def _reads(name: str, code: str, variable: str = "DOC_MODEL") -> Edit:
    """Return a project that stays as it is, while a variable of the environment changes."""
    return Edit(name, {"app.py": code}, environment=({variable: "m1"}, {variable: "m2"}))


_EVALUATED = "E = eval('1')\n\ndef answer(question):\n    return question * E\n"

RERUN: list[Edit] = [
    _does("a call in a text that eval reads", "x = eval(\"fakellm.configure('m1')\")"),
    swap("what eval gives to a name that is used", _EVALUATED, "'1'", "'2'"),
    swap("a name in a text that eval reads", f"A = 1\n{_EVALUATED}".replace("'1'", "'A'"),
         "A = 1", "A = 2"),
    _does("a setting of a library, imported by its name", "Settings.llm = 'm1'"),
    _does("a setting of what a library gave", "s = fakellm.configure('')\ns.llm = 'm1'"),
    _does("a call of a library's whose result has a name", "client = fakellm.configure('m1')"),
    _does("the same with a hint", "client: object = fakellm.configure('m1')"),
    _does("a call in an assert", "assert fakellm.configure('m1')"),
    _does("a call in a condition", "if fakellm.configure('m1'):\n    pass"),
    _does("setattr in a comprehension", "[setattr(Settings, k, 'm1') for k in ['llm']]"),
    _does("a call that is put into a list", "TOOLS = []\nTOOLS.append(fakellm.configure('m1'))"),
    _does("a call in a tuple", "(fakellm.configure('m1'), 0)"),
    _does("a default that calls", "def other(x=fakellm.configure('m1')):\n    pass"),
    _does(
        "a decorator that does something",
        "def use(m):\n    fakellm.configure(m)\n    return lambda f: f\n"
        "@use('m1')\ndef other():\n    pass",
    ),
    _does(
        "a class keyword",
        "class Base:\n    def __init_subclass__(cls, model):\n        fakellm.configure(model)\n"
        "class Mine(Base, model='m1'):\n    pass",
    ),
    _does("a condition in a class", "class A:\n    if True:\n        fakellm.configure('m1')"),
    _does("an attribute of a class", "class A:\n    x = fakellm.configure('m1')"),
    _does("a class in a class", "class A:\n    class B:\n        fakellm.configure('m1')"),
    _does("a library called log", "import fakellm as log\nlog.configure('m1')"),
    _reads("a name given by keyword", "import os\ndef env(name):\n    return os.environ[name]\n"
           "def answer(q):\n    return env(name='DOC_MODEL')\n"),
    _reads("a name in an object", "import os\nclass Env:\n    def __init__(self, name):\n"
           "        self.name = name\n    def value(self):\n        return os.environ[self.name]\n"
           "M = Env('DOC_MODEL')\ndef answer(q):\n    return M.value()\n"),
    _reads("names in a tuple", "import os\ndef answer(q):\n"
           "    return [os.environ[n] for n in ('DOC_MODEL', 'TONE')]\n"),
    _reads("the environment as a local", "import os\ndef answer(q):\n    env = os.environ\n"
           "    return env['DOC_MODEL']\n"),
    _reads("a copy", "import os\ndef answer(q):\n    return os.environ.copy()['DOC_MODEL']\n"),
    _reads("a dict", "import os\ndef answer(q):\n    return dict(os.environ)['DOC_MODEL']\n"),
    _reads("a template", "import os\ndef answer(q):\n"
           "    return '{DOC_MODEL}'.format(**os.environ)\n"),
    _reads("expandvars", "import os\ndef answer(q):\n"
           "    return os.path.expandvars('$DOC_MODEL')\n"),
    _reads("a partial", "import os\nfrom functools import partial\n"
           "get = partial(os.getenv, 'DOC_MODEL')\ndef answer(q):\n    return get()\n"),
    _reads("a default of a getter", "import os\ndef env(name='DOC_MODEL'):\n"
           "    return os.environ[name]\ndef answer(q):\n    return env()\n"),
    _reads("a getter of a getter", "import os\ndef env(n):\n    return os.getenv(n)\n"
           "def get(key):\n    return env(key)\ndef answer(q):\n    return get('DOC_MODEL')\n"),
    _reads("a name that begins with a global", "import os\nPREFIX = 'DOC'\ndef answer(q):\n"
           "    return os.environ.get(f'{PREFIX}_MODEL')\n"),
    _reads("a sum", "import os\ndef answer(q):\n    return os.environ.get('DOC_' + q)\n"),
    _reads("all that begin so", "import os\ndef answer(q):\n"
           "    return [v for k, v in os.environ.items() if k.startswith('DOC_')]\n"),
]  # fmt: skip

KEEP: list[Edit] = [
    swap("a new global beside an eval of a text", _EVALUATED, "E =", "NEW = 7\nE ="),
    swap("an edit of another function beside an eval", f"{_EVALUATED}def f():\n    g(1)\n",
         "g(1)", "g(2)"),
    _does("another print", "print('m1')"),
    _does("another level of logging", "import logging\nlogging.basicConfig(level=10)",
          "level=10", "level=20"),
    _does("an object of a library's class that nobody uses", "import re\nX = re.compile('m1')"),
    _does("a text that nobody uses", "import textwrap\nX = textwrap.dedent('m1')"),
    _does("a function of one's own that does nothing to others",
          "def made(x):\n    return [x]\nX = made('m1')"),
    _does("a comment on what is done", "fakellm.configure('m1')  # one", "# one", "# two"),
    _does("a script's part", "if __name__ == '__main__':\n    fakellm.configure('m1')"),
    _does("a dataclass that nobody uses",
          "from dataclasses import dataclass\n@dataclass\nclass C:\n    x: str = 'm1'"),
    _reads("a variable that nobody names", "import os\ndef answer(q):\n"
           "    return dict(os.environ)['TONE'] if q else ''\n"),
    _reads("a variable of another beginning", "import os\ndef answer(q):\n"
           "    return os.environ.get('APP_' + q)\n"),
    _reads("a variable of the machine, in a roundabout way", "import os\ndef answer(q):\n"
           "    return dict(os.environ)['HOSTNAME']\n", "HOSTNAME"),
    _reads("a secret, in a roundabout way", "import os\ndef answer(q):\n"
           "    return dict(os.environ)['DOC_API_KEY']\n", "DOC_API_KEY"),
]  # fmt: skip
