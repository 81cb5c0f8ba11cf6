"""`run.json` is one typed object: what was written is read, and what is damaged is named."""

import json
import random

import pytest

import limpet
from limpet.datasets.selection import Selection
from limpet.journal.journal import Journal
from limpet.journal.layout import directory_at
from limpet.run.reading import RunReader
from limpet.run.run_file import Completion, PendingRedo, RunFile, Session, StepBegan

FULL = RunFile(
    limpet="1.2",
    kind="map",
    sessions=[
        Session("2026-01-01T10:00:00Z", 7, 0, 9, 4, 2, 3, 4, {"workflow": StepBegan(1, 2, 3, 4)}),
        Session(ended="2026-01-01T11:00:00Z"),
    ],
    selections=[Selection(limit=3), Selection(sample=4, seed=1)],
    functions={"ab": {"answer": "cd"}, "ef": {}},
    decided={"ab": ["cd"], "cd": []},
    evaluators={"correct": {"version": "1"}},
    state={"workflow": ["seen"]},
    files_last=5,
    files_decided={"prompt.txt": {"digest": "redo"}},
    redo=[PendingRedo(3, frozenset({"workflow"}), None, {"workflow": "ab"}, tried=True)],
    generation=3,
    complete=Completion("ab", {"workflow": [4, 100]}, {"summary.json": 17}, "cd"),
    configuration={"dataset": {"path": "rows.jsonl"}},
    made_by={"file": "eval.yml", "set": ["pace=1"]},
    imported=["out"],
)
ROWS = [{"id": "a", "question": "q"}]


@pytest.fixture
def layout(tmp_path):
    return directory_at(tmp_path / "run")


def write(layout, told):
    layout.home.mkdir(exist_ok=True)
    layout.lock.touch()
    layout.run_json.write_text(json.dumps(told), encoding="utf-8")


@pytest.mark.parametrize("run_file", [FULL, RunFile()])
def test_what_was_written_is_read(layout, run_file):
    with Journal(layout) as journal:
        run_file.write(journal)
    assert RunFile.load(layout) == run_file


def test_without_a_file_every_field_has_its_default(layout):
    assert RunFile.load(layout) == RunFile()


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"sessions": 5}, "sessions must be a list, not 5"),
        ({"sessions": [3]}, r"sessions\[0\] must be an object, not 3"),
        ({"sessions": [{"pid": "x"}]}, r"sessions\[0\]\.pid must be an integer, not x"),
        (
            {"sessions": [{"trials": True}]},
            r"sessions\[0\]\.trials must be an integer, not True",
        ),
        ({"sessions": [{"steps": {"workflow": {"kept": 1, "calls": 2}}}]}, "bytes_at is missing"),
        ({"functions": {"ab": {"answer": 3}}}, r"functions\.ab\.answer must be a string, not 3"),
        ({"decided": {"ab": "keep"}}, r"decided\.ab must be a list, not keep"),
        (
            {"selections": [{"limit": "all"}]},
            r"selections\[0\]\.limit must be an integer, not all",
        ),
        ({"redo": [{"generation": 1, "steps": ["workflow"]}]}, r"redo\[0\]\.(items|versions) is m"),
        ({"complete": []}, "complete must be an object"),
        ({"kind": "other"}, "kind must be evaluation or map, not other"),
        ({"functionz": {}}, "functionz is unknown to this version of Limpet"),
        ({"sessions": [{"budget": 3}]}, r"sessions\[0\]\.budget is unknown to this version"),
    ],
)
def test_a_field_that_is_damaged_or_newer_is_refused_by_its_name(layout, told, said):
    write(layout, {"format": 2, **told})
    with pytest.raises(limpet.errors.JournalError, match=rf"run\.json: .*{said}") as caught:
        limpet.evaluate(ROWS, lambda question: question, run=layout.home, version="1")
    assert caught.value.hint
    assert json.loads(layout.run_json.read_text())[next(iter(told))] == next(iter(told.values()))


def test_no_damage_is_read_as_anything_but_a_run_file_or_an_error(layout):
    with Journal(layout) as journal:
        FULL.write(journal)
    whole, chance = json.loads(layout.run_json.read_text()), random.Random(7)
    odd = [None, 3, True, "x", [], {}, [None], {"a": None}, 1e400, ["x"], [[]]]

    def places(told, path=()):
        for name, inner in told.items() if isinstance(told, dict) else enumerate(told):
            yield (*path, name)
            if isinstance(inner, (dict, list)):
                yield from places(inner, (*path, name))

    for *path, last in places(whole):
        damaged = json.loads(json.dumps(whole))
        within = damaged
        for name in path:
            within = within[name]
        within[last] = chance.choice(odd)
        write(layout, damaged)
        try:
            RunFile.load(layout)
        except limpet.errors.JournalError:
            continue


def test_a_reader_takes_a_torn_file_from_its_copy(tmp_path):
    limpet.evaluate(ROWS, lambda question: question, run=tmp_path / "run", version="1")
    (tmp_path / "run/run.json").write_text("{")
    with RunReader(tmp_path / "run") as reader:
        assert len(reader.run_file.sessions) == 1
        assert reader.state == "finished"
