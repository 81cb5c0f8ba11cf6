"""Edits of ordinary code: how libraries are set up, registries filled and settings read."""

from textwrap import dedent

from identity.edits import Edit

_AT = {"PYTHONPATH": "site-packages"}
_LIBRARY = """
    HOOKS, SETTINGS, MODEL, BASE = [], {}, "none", "none"

    class Config:
        value = None
        def __init__(self, value):
            Config.value = value

    class Client:
        def __init__(self, **given):
            self.given = given

    class App:
        def on(self, name):
            return add_hook

    app = App()

    def add_hook(function):
        HOOKS.append(function)
        return function

    def tool(function=None, **given):
        return function or tool

    def configure(*models, **given):
        SETTINGS.update(dict.fromkeys(models, given))

    def ask(question):
        return [MODEL, BASE, SETTINGS, Config.value, [one(question) for one in HOOKS]]
"""
_SETTINGS = """
    import os
    from pydantic import BaseModel, ConfigDict

    class BaseSettings(BaseModel):
        model_config = ConfigDict(extra="allow")

        def __init__(self):
            config, said = self.model_config, dict(os.environ)
            if config.get("env_file"):
                with open(config["env_file"]) as file:
                    said = dict(line.strip().split("=") for line in file) | said
            prefix = config.get("env_prefix", "")
            names = {one: (prefix + one).upper() for one in type(self).model_fields}
            super().__init__(**{one: said[n] for one, n in names.items() if n in said})
"""
_ENVIRONS = """
    import os

    class Env:
        def str(self, name, default=None):
            return os.environ.get(name, default)

    env = Env()
"""
_PACKAGES = {"fakellm": _LIBRARY, "pydantic_settings": _SETTINGS, "environs": _ENVIRONS}
_PACKAGES |= {"weave": "def init(name): ...", "mlflow": "def set_experiment(name): ..."}
_INSTALLED = {f"site-packages/{name}.py": dedent(text) for name, text in _PACKAGES.items()}
_INSTALLED["site-packages/openinference/openai.py"] = (
    "class Instrumentor:\n    def instrument(self, **given): ...\n"
)
_ASK = "\ndef answer(q):\n    return fakellm.ask(q)\n"
_HOOK = "def f(q):\n    return 'm1'\n"
_SET_UP = "import fakellm\n\ndef set_up(model):\n    fakellm.configure(model)\n"


def _edit(
    name: str, code: str, old: str = "m1", new: str = "m2", file: str = "app.py", **others: str
) -> Edit:
    """Return an edit of a project that asks a library, unless it says what it answers."""
    code = code if "answer" in code else f"import fakellm\n{code}\n{_ASK}"
    files = {"app.py": code} | {
        one.replace("_IN_", "/") + ".py": two for one, two in others.items()
    }
    assert old in files[file], name
    return Edit(
        name, files | _INSTALLED, {file: files[file].replace(old, new)}, environment=(_AT, _AT)
    )


def _variable(name: str, code: str, variable: str = "MODEL", **files: str) -> Edit:
    """Return a project that stays as it is, while a variable of the environment changes."""
    return Edit(
        name,
        {"app.py": code, **_INSTALLED, **files},
        environment=({**_AT, variable: "m1"}, {**_AT, variable: "m2"}),
    )


_MODEL = (
    "from pydantic_settings import BaseSettings\nclass S(BaseSettings):\n    model: str = 'x'\n"
)
_LAZY = "from functools import cache\n@cache\ndef settings():\n    return S()\n"
_LAZY += "def answer(q):\n    return settings().model\n"

_PLUGINS = {
    "plugins/__init__.py": "", "plugins/a/__init__.py": "", "plugins/b/__init__.py": "",
    "plugins/a/prompts.py": "ASK = 'a'\n", "plugins/b/prompts.py": "ASK = 'b'\n",
    **{f".venv/lib/python3/site-packages/p{n}.py": "" for n in range(600)},
    **{f"venv/lib/python3/site-packages/p{n}.py": "" for n in range(600)},
}  # fmt: skip
_IMPORTS = "import importlib\ndef answer(q):\n    return importlib.import_module({}).ASK\n"
_OTHER_ASK = {"plugins/b/prompts.py": "ASK = 'c'\n"}

RERUN: list[Edit] = [
    _edit("a function that imports what it sets up, under another name",
          "def set_up():\n    import fakellm as f\n    f.SETTINGS['a'] = 'm1'\nset_up()"),
    _edit("a function that imports what it fills",
          "def set_up():\n    from fakellm import SETTINGS\n    SETTINGS['a'] = 'm1'\nset_up()"),
    _edit("a function that imports a function of one's own which sets up",
          "def main():\n    from conf import set_up\n    set_up('m1')\nmain()", conf=_SET_UP),
    _edit("a dict of a library's, imported by its name",
          "from fakellm import SETTINGS as s\ns['a'] = 'm1'"),
    _edit("a dict of a library's, imported by its name and updated",
          "from fakellm import SETTINGS\nSETTINGS.update(a='m1')"),
    _edit("a dict of a library's, imported by its name, gets another's elements",
          "from fakellm import SETTINGS\nSETTINGS |= {'a': 'm1'}"),
    _edit("a dict of a library's under a name of one's own", "s = fakellm.SETTINGS\ns['a'] = 'm1'"),
    _edit("two names at once, one of them a library's", "BASE = fakellm.BASE = 'm1'"),
    _edit("two values of a library's at once", "fakellm.MODEL, fakellm.BASE = 'x', 'm1'"),
    _edit("a value of a library's on the line of a condition", "if True: fakellm.BASE = 'm1'"),
    _edit("a value of a library's that a loop gives", "for fakellm.BASE in ['m1']: pass"),
    _edit("a value of a library's that a context gives",
          "import contextlib\nwith contextlib.nullcontext('m1') as fakellm.BASE: pass"),
    _edit("what a package does of which a module is imported for its effect",
          "import pkg.core", file="pkg/__init__.py", pkg_IN_core="",
          pkg_IN___init__="import fakellm\nfakellm.BASE = 'm1'\n"),
    _edit("what is done unless it is a script",
          "if __name__ != '__main__':\n    fakellm.configure('m1')"),
    _edit("what is done if it is no script",
          "if __name__ == '__main__':\n    pass\nelse:\n    fakellm.configure('m1')"),
    _edit("an object that is made for what that does", "fakellm.Config('m1')"),
    _edit("a function that map calls", "list(map(fakellm.configure, ['m1']))"),
    _edit("a function that a thread calls",
          "from threading import Thread\ndef set_up():\n    fakellm.configure('m1')\n"
          "t = Thread(target=set_up)\nt.start()\nt.join()"),
    _edit("a function that a pool calls",
          "from concurrent.futures import ThreadPoolExecutor\ndef set_up(m):\n"
          "    fakellm.configure(m)\nwith ThreadPoolExecutor() as p:\n"
          "    list(p.map(set_up, ['m1']))"),
    _edit("a function that is taken out of a dict and called",
          "def dev():\n    fakellm.configure('m1')\nBY = {'dev': dev}\nBY['dev']()"),
    _edit("a context of one's own that is entered",
          "from contextlib import contextmanager\n@contextmanager\ndef set_up(m):\n"
          "    fakellm.configure(m)\n    yield\nwith set_up('m1'):\n    pass"),
    _edit("a lambda that is called at once", "(lambda m: fakellm.configure(m))('m1')"),
    _edit("a function of a library's by its name", "getattr(fakellm, 'configure')('m1')"),
    _edit("the names of a library as a dict", "vars(fakellm).update(BASE='m1')"),
    _edit("a function that a library's decorator adds", f"@fakellm.add_hook\n{_HOOK}"),
    _edit("a function that a library's decorator hears by", f"@fakellm.app.on('x')\n{_HOOK}"),
    _edit("a function that a decorator of one's own gives to a library",
          f"def reg(f):\n    fakellm.HOOKS.append(f)\n    return f\n@reg\n{_HOOK}"),
    _edit("a function that a decorator of one's own with arguments gives to a library",
          "def reg(name):\n    def around(f):\n        fakellm.HOOKS.append(f)\n        return f\n"
          f"    return around\n@reg('x')\n{_HOOK}"),
    _edit("a function that a class gives to a library as its decorator",
          "class Reg:\n    def __init__(self, f):\n        fakellm.HOOKS.append(f)\n"
          f"@Reg\n{_HOOK}"),
    _edit("a method that a base of one's own gives to a library",
          "class Base:\n    def __init_subclass__(cls):\n        fakellm.HOOKS.append(cls.run)\n"
          "class Mine(Base):\n    @staticmethod\n    def run(q):\n        return 'm1'\n"),
    _edit("warnings become errors, by keyword",
          "import warnings\nwarnings.filterwarnings(action='error')\ndef answer(q):\n"
          "    warnings.warn('x')\n", "action='error'", "action='ignore'"),
    _edit("what numpy does with a division by zero",
          "import numpy as np\nnp.seterr(all='ignore')\ndef answer(q):\n"
          "    return np.float64(1) / np.float64(0)\n", "'ignore'", "'raise'"),
    _edit("how yaml writes texts",
          "import yaml\ndef text(dumper, s):\n"
          "    return dumper.represent_scalar('tag:yaml.org,2002:str', s, style='|')\n"
          "yaml.add_representer(str, text)\ndef answer(q):\n    return yaml.dump({'a': q})\n",
          "'|'", "'>'"),
    _edit("how yaml reads a tag",
          "import yaml\nyaml.SafeLoader.add_constructor('!m', lambda l, n: 'm1')\n"
          "def answer(q):\n    return yaml.safe_load('!m x')\n"),
    _edit("a dialect of csv",
          "import csv\ncsv.register_dialect('mine', delimiter=';')\ndef answer(q):\n"
          "    return list(csv.reader([q], 'mine'))\n", "';'", "','"),
    _edit("a function that wrapt puts in the place of a library's",
          "import wrapt\n@wrapt.patch_function_wrapper('fakellm', 'ask')\n"
          "def asked(wrapped, instance, args, kwargs):\n    return 'm1'\n"),
    _edit("a function that wrapt puts around a library's",
          "import wrapt\ndef asked(wrapped, instance, args, kwargs):\n    return 'm1'\n"
          "wrapt.wrap_function_wrapper('fakellm', 'ask', asked)\n"),
    _variable("a variable that settings read when they are asked for", _MODEL + _LAZY),
    _variable("a variable that settings read by a prefix",
              f"{_MODEL}    model_config = {{'env_prefix': 'APP_'}}\n{_LAZY}", "APP_MODEL"),
    Edit("what a file of settings says",
         {"app.py": f"{_MODEL}    model_config = {{'env_file': '.env'}}\n{_LAZY}",
          ".env": "MODEL=m1\n", **_INSTALLED}, {".env": "MODEL=m2\n"}, environment=(_AT, _AT)),
    _variable("a variable that environs reads",
              "from environs import env\ndef answer(q):\n    return env.str('MODEL')\n"),
    Edit("a folder in the package instead of the one in the project",
         {"pyproject.toml": "", "app.py": "from src.bot.ask import answer\n",
          "src/bot/ask.py": "from pathlib import Path\nHERE = Path(__file__).parent\n"
                            "X = HERE.parent.parent / 'prompts'\ndef answer(q):\n"
                            "    return (X / 'a.txt').read_text()\n"},
         {"src/bot/ask.py": "from pathlib import Path\nHERE = Path(__file__).parent\n"
                            "X = HERE / 'prompts'\ndef answer(q):\n"
                            "    return (X / 'a.txt').read_text()\n"}),
    Edit("the second of two files of one name, found by a computed name",
         {**_PLUGINS, "app.py": _IMPORTS.format('f"plugins.{q}.prompts"')}, _OTHER_ASK),
    Edit("a file in a project with environments, found by a computed name",
         {**_PLUGINS, "app.py": _IMPORTS.format("q")}, _OTHER_ASK),
    Edit("a file of another folder, found by a computed name",
         {"app.py": "from one import ask as a\nfrom two import ask as b\n"
                    "def answer(q):\n    return a.answer(q) + b.answer(q)\n",
          **{f"{folder}/{file}.py": text for folder in ("one", "two") for file, text in
             (("__init__", ""), ("ask", _IMPORTS.format("q")), ("prompts", "ASK = 'a'\n"))}},
         {"two/prompts.py": "ASK = 'b'\n"}),
]  # fmt: skip

KEEP: list[Edit] = [
    _edit("another project of a library that looks on", "import weave\nweave.init('m1')"),
    _edit("another experiment of a library that looks on",
          "import mlflow\nmlflow.set_experiment('m1')"),
    _edit("a library that looks on is switched on", "# m1", "# m1",
          "from openinference.openai import Instrumentor\nInstrumentor().instrument()"),
    _edit("a key that is put into the environment",
          "import os\nos.environ['OPENAI_API_KEY'] = 'sk-m1'"),
    _edit("a key that is put into the environment if there is none",
          "import os\nos.environ.setdefault('OPENAI_API_KEY', 'sk-m1')"),
    _edit("where modules are looked for", "import sys\n# m1", "# m1", "sys.path.append('..')"),
    _edit("how lines are written", "import sys\n# m1", "# m1",
          "sys.stderr.reconfigure(encoding='utf-8')"),
    _edit("what a signal does", "import signal\n# m1", "# m1",
          "signal.signal(signal.SIGINT, signal.SIG_DFL)"),
    _edit("a tool of a library's that nobody uses", f"@fakellm.tool\n{_HOOK}"),
    _edit("a tool of a library's with arguments that nobody uses",
          f"@fakellm.tool(name='x')\n{_HOOK}"),
    _edit("a function under a decorator of one's own that nobody uses",
          "import functools\ndef timed(f):\n    @functools.wraps(f)\n    def around(*given):\n"
          "        fakellm.configure()\n        return f(*given)\n    return around\n"
          f"@timed\n{_HOOK}"),
    _edit("a client that nobody uses", "c = fakellm.Client(model='m1')"),
    _edit("a list of one's own grows", "from fakellm import HOOKS\nX = list(HOOKS)\nX += ['m1']"),
    _edit("a value of a library's that is only read",
          "from fakellm import SETTINGS\nX = SETTINGS.get('m1')"),
    _edit("a value of a library's that is compared", "X = fakellm.BASE == 'm1'"),
    _variable("a variable that is no field of the settings", _MODEL + _LAZY, "OTHER"),
]  # fmt: skip
