"""A file that a call reads in a worker counts as it does in one process."""

import pytest

from tests.engines.project import ONE, SLOW_ONE, WORKER, Project, both_engines

CODE = """
def read(name):
    return (HERE / name).read_text()


{at_import}


class answer:
    def setup(self):
        self.prompt = read("setup.txt")

    def __call__(self, item):
        record(item)
        read("call.txt")
        read(f"docs/{{item.id}}.txt")
        return item.expected


def score(output, item):
    record(item, "score")
    return len(read("rubric.txt"))
"""
# What is edited, and how many answers and scores are made again: of four items.
EDITS = {
    "nothing": (None, 0, 0),
    "a file of every call": ("call.txt", 4, 0),
    "a file of the set-up": ("setup.txt", 4, 0),
    "a file of the import, of which both are part": ("import.txt", 4, 4),
    "the file of one item": ("docs/q2.txt", 1, 0),
    "a file of the evaluator": ("rubric.txt", 0, 4),
    "a file that nobody reads": ("nobody.txt", 0, 0),
}


def make(folder):
    code = CODE.format(at_import='PROMPT = read("import.txt")')
    project = Project(folder, code, rows=4, evaluators={"score": "APP:score"}, more="pace: 2\n")
    (folder / "pyproject.toml").write_text("")  # this folder is the project
    (folder / "docs").mkdir()
    names = ["call.txt", "setup.txt", "import.txt", "rubric.txt", "nobody.txt"]
    for name in [*names, *(f"docs/q{n}.txt" for n in range(4))]:
        (folder / name).write_text(f"first content of {name}")
    return project


def again(project, edit, first, then):
    """Return how many answers and scores a second session makes."""
    done = project.run(engine=first)
    assert done.returncode == 0, done.stderr
    assert (len(project.counts()), len(project.counts("score"))) == (4, 4)
    project.forget_calls()
    if edit:
        (project.folder / edit).write_text("second content")
    done = project.run(engine=then)
    assert done.returncode == 0, done.stderr
    if edit and project.calls:
        assert edit in done.stderr or "score" in {call.step for call in project.calls}
    return sum(project.counts().values()), sum(project.counts("score").values())


def assert_costs(edit, made, engine):
    """Assert that what depends on a file is made again, and nothing if nothing was edited.

    What workers hold in memory is not seen, and may be a cache: what they read may count for more.
    """
    name, *least = edit
    if engine == ONE or name in (None, "nobody.txt"):
        assert made == tuple(least)
    else:
        assert all(count >= few for count, few in zip(made, least, strict=True))


# What is read by every call is edited in the next test, and identity/test_files_read has the rest.
REPEATED = {
    "nothing", "a file of every call", "a file of the import, of which both are part",
    "a file of the evaluator", "a file that nobody reads",
}  # fmt: skip


@pytest.mark.parametrize(
    "edit",
    [pytest.param(edit, marks=[pytest.mark.slow] if edit in REPEATED else []) for edit in EDITS],
)
@both_engines
def test_an_edited_file_costs_what_read_it(tmp_path, engine, edit):
    assert_costs(EDITS[edit], again(make(tmp_path), EDITS[edit][0], engine, engine), engine)


@pytest.mark.parametrize(
    "edit", [pytest.param("nothing", marks=pytest.mark.slow), "a file of every call"]
)
@pytest.mark.parametrize(
    ("first", "then"), [pytest.param(ONE, WORKER, marks=pytest.mark.slow), (WORKER, ONE)]
)
def test_it_does_so_whoever_read_it_and_whoever_goes_on(tmp_path, first, then, edit):
    assert_costs(EDITS[edit], again(make(tmp_path), EDITS[edit][0], first, then), first)


SHARED = """
def read():
    return (HERE / "prompt.txt").read_text()


class answer:
    def setup(self):
        self.prompt = read()

    def __call__(self, item):
        record(item)
        return self.prompt


def score(output, item):
    return len(read())
"""


@pytest.mark.slow  # a file of the set-up counts, above
@pytest.mark.parametrize("engine", [SLOW_ONE, WORKER])
def test_what_a_set_up_keeps_counts_also_if_an_evaluator_reads_the_same(tmp_path, engine):
    project = Project(tmp_path, SHARED, rows=3)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "prompt.txt").write_text("first")
    project.evaluate(engine, {"score": "APP:score"}, pace=1)
    (tmp_path / "prompt.txt").write_text("second")
    result = project.evaluate(engine, {"score": "APP:score"}, pace=1)
    assert [item.output.value for item in result.items] == ["second"] * 3


PLUGINS = """
def answer(item):
    record(item)
    return importlib.import_module(f"{PACKAGE}.{item.id}").VALUE
"""


@pytest.mark.parametrize("engine", [SLOW_ONE, WORKER])
def test_a_folder_that_is_looked_through_for_code_is_not_read(tmp_path, engine):
    (package := tmp_path / f"plugins_{engine}").mkdir()
    code = PLUGINS.replace("{PACKAGE}", package.name)
    project = Project(tmp_path, f"import importlib\n{code}", rows=2)
    (tmp_path / "pyproject.toml").write_text("")
    for name in ("__init__", "q0", "q1"):
        (package / f"{name}.py").write_text("VALUE = 1\n")
    project.evaluate(engine)
    project.forget_calls()
    (package / "notes.txt").write_text("nobody reads this")
    assert not project.evaluate(engine).failed
    assert not project.calls


# Where the text of a file is kept for an item that does not read it.
KEPT = {
    "in a module": """
CACHE = {}


def answer(item):
    if item.id != "q2":
        CACHE["text"] = (HERE / "call.txt").read_text()
    return CACHE["text"]
""",
    "in an object": """
class answer:
    def setup(self):
        self.text = None

    def __call__(self, item):
        if item.id != "q2":
            self.text = (HERE / "call.txt").read_text()
        return self.text
""",
    "in a thread": """
LOCAL = threading.local()


def answer(item):
    if item.id != "q2":
        LOCAL.text = (HERE / "call.txt").read_text()
    return LOCAL.text
""",
    "in a file": """
def answer(item):
    if item.id != "q2":
        (HERE / "kept.txt").write_text((HERE / "call.txt").read_text())
    return (HERE / "kept.txt").read_text()
""",
}


@pytest.mark.parametrize("engine", [SLOW_ONE, WORKER])
@pytest.mark.parametrize(
    "where",
    [
        "in a module",
        *(
            pytest.param(where, marks=pytest.mark.slow)
            for where in ("in an object", "in a thread", "in a file")
        ),
    ],
)
def test_a_file_that_one_call_has_from_another_counts_for_it(tmp_path, where, engine):
    project = Project(tmp_path, KEPT[where], rows=3)
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "call.txt").write_text("first")
    project.evaluate(engine, pace=1)
    (tmp_path / "call.txt").write_text("second")
    result = project.evaluate(engine, pace=1)
    assert [item.output.value for item in result.items] == ["second"] * 3
