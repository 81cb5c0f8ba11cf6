"""Sessions of every kind in any order, cut off at any call: what runs is what a model says.

An answer counts if the present version made it, or if it was kept for the present version.

The model knows of each record in which session it was made. A cell that a redo covers is done when
its record is of that redo's session or a later one.
"""

import random
import re
import shutil

import pytest
from costly import costly
from cut_short import ended

import limpet
from limpet.run.reading import RunReader

IDS = [f"q{n}" for n in range(5)]
ROWS = [{"id": id_, "question": id_, "answer": ""} for id_ in IDS]
COST = 0.3
SERIAL = re.compile(rb'"(?:output|value)":"?(\d+)')


class World:
    """A run, and what a plain model says of it."""

    def __init__(self, home, random_):
        self.home, self.random = home, random_
        self.run = home / "run-0"
        self.serial = self.session = 0
        self.version = self.latest = 1
        self.ran = []  # the versions that ran, the latest last
        self.decided = {}  # by version: the versions whose answers were kept for it; empty: redo
        self.answers = {}  # by item and version: (serial, session)
        self.scores = {}  # by item and answer: (serial, session)
        self.redos = []  # (steps, items, session), as recorded
        self.begun = {}  # by session, the version that a redo was asked for with
        self.reported = set()

    # ---- what the model says --------------------------------------------------------------------

    def counting(self, id_, version=None):
        """Return the answer of an item that counts if whatever there is counts."""
        made_by = self.made_by(id_, version or self.version)
        return None if made_by is None else self.answers[id_, made_by]

    def made_by(self, id_, version):
        """Return the version whose answer of an item counts: of the kept ones, then the latest."""
        order = [version, *self.decided.get(version, ())]
        for other in reversed(self.ran):
            order += [other, *self.decided.get(other, ())]
        return next((other for other in order if (id_, other) in self.answers), None)

    def choice(self, id_, on_change):
        """Return what was decided about the answer of an item, made by another version."""
        kept = self.decided.get(self.version)
        if on_change is not None or kept is None:
            return on_change
        if not kept:
            return "redo"
        return "keep" if self.made_by(id_, self.version) in kept else None

    def is_due(self, step, id_, record):
        """Tell whether a redo asks for more than this record."""
        since = [
            session
            for steps, items, session in self.redos
            if step in steps and (items is None or id_ in items)
        ]
        return bool(since) and (record is None or record[1] < max(since))

    def asks(self, id_, on_change):
        """Tell whether the workflow has to answer an item; "?": somebody has to choose."""
        if self.is_due("workflow", id_, self.counting(id_)):
            return True
        if (id_, self.version) in self.answers:
            return False
        if self.counting(id_) is None:
            return True
        return {"redo": True, "keep": False, None: "?"}[self.choice(id_, on_change)]

    def lacks_score(self, id_):
        answer = self.counting(id_)
        score = self.scores.get((id_, answer[0]))
        return score is None or self.is_due("correct", id_, score)

    # ---- what is done ---------------------------------------------------------------------------

    def go(self, *, limit=None, redo=(), items=None, on_change=None, stop=None, kill=None):
        """Do one session, stopped or killed at a call of some number, and compare."""
        self.session += 1
        selected = IDS[:limit]
        options = {"on_change": on_change, "version": str(self.version)}
        before = list(self.redos)
        if on_change == "keep" and not redo:
            self.redos = []  # it cancels what is not finished
        if redo:
            options["redo"] = limpet.Redo(list(redo), None if items is None else sorted(items))
            covered = items if items is not None or limit in (None, 5) else frozenset(selected)
            spec = (frozenset(redo), covered)
            # The same again goes on with it, unless the workflow that it runs was edited since.
            same = [one for one in self.redos if one[:2] == spec]
            if "workflow" in redo:
                same = [one for one in same if self.begun[one[2]] == self.version]
            if not same:
                self.begun[self.session] = self.version
                others = [one for one in self.redos if not _is_within(one, spec)]
                self.redos = [*others, (*spec, self.session)]
        wanted = {id_: self.asks(id_, on_change) for id_ in selected}
        in_question = [id_ for id_ in selected if wanted[id_] == "?"]
        if len(in_question) * COST > 1:  # else they are made anew without a question
            with pytest.raises(limpet.FunctionChangedError):
                self.evaluate([], [], options, limit)
            self.redos = before
            return
        asked, scored, snapped = [], [], []

        def due():
            number = len(asked) + len(scored)
            if stop is not None and number > stop:
                raise limpet.errors.QuotaExhaustedError("empty")
            if kill is not None and number > kill and not snapped:
                snapped.append(self.home / f"run-{self.session}")
                shutil.copytree(self.run, snapped[0])

        was_scored = {id_ for id_ in selected if not wanted[id_] and self.lacks_score(id_)}
        self.evaluate(asked, scored, options, limit, due)
        if snapped:
            self.run = snapped[0]
        is_whole = stop is None and not snapped
        called = [id_ for id_, _ in asked]
        assert len(called) == len(set(called))
        expected = {id_ for id_ in selected if wanted[id_]}
        assert set(called) <= expected
        assert {id_ for id_, *_ in scored} <= was_scored | expected
        if is_whole:
            assert set(called) == expected
            assert {id_ for id_, *_ in scored} == was_scored | expected
        self.take(asked, scored, on_change, wanted)
        self.reported |= set(selected)
        if not snapped:
            self.redos = [one for one in self.redos if self.is_recorded(one)]

    def is_recorded(self, redo):
        """Tell whether a redo stands in the run: as long as anything of it is to be done."""
        with RunReader(self.run) as reader:
            is_there = redo[:2] in [(one.steps, one.items) for one in reader.counting.redos]
        assert is_there or not self.is_pending(redo)
        return is_there

    def is_pending(self, redo):
        steps, items, session = redo
        for id_ in self.reported if items is None else items & self.reported:
            answer = self.counting(id_)
            if "workflow" in steps and (answer is None or answer[1] < session):
                return True
            if "correct" in steps and answer is not None:
                score = self.scores.get((id_, answer[0]))
                if score is None or score[1] < session:
                    return True
        return False

    def take(self, asked, scored, on_change, wanted):
        """Take into the model what is on disk."""
        kept = {
            int(one)
            for name in ("workflow", "correct")
            for line in (self.run / f"{name}_output.jsonl").read_bytes().splitlines()
            if line.endswith(b"}")
            for one in SERIAL.findall(line)
        }
        older = [id_ for id_ in wanted if (id_, self.version) not in self.answers]
        in_question = [
            id_
            for id_ in older
            if self.counting(id_) and not self.is_due("workflow", id_, self.counting(id_))
        ]
        self.decide(in_question, on_change)
        self.ran = [*(other for other in self.ran if other != self.version), self.version]
        for id_, serial in asked:
            if serial in kept:
                self.answers[id_, self.version] = (serial, self.session)
        for id_, answer, serial in scored:
            if serial in kept:
                self.scores[id_, answer] = (serial, self.session)

    def decide(self, in_question, on_change):
        """Take into the model what was decided about the answers of other versions."""
        asked = any(self.choice(id_, on_change) is None for id_ in in_question)
        if in_question and (on_change or asked):  # what was to be made again was so by other code
            self.decided = {version: kept for version, kept in self.decided.items() if kept}
        if not in_question or on_change is None:
            return
        kept = self.decided.get(self.version, [])
        made_by = [self.made_by(id_, self.version) for id_ in in_question]
        order = [*kept]
        for other in reversed(self.ran):
            order += [other, *self.decided.get(other, ())]
        chosen = [other for other in dict.fromkeys(order) if other in {*kept, *made_by}]
        self.decided[self.version] = chosen if on_change == "keep" else []

    def evaluate(self, asked, scored, options, limit, due=lambda: None):
        async def workflow(question):
            self.serial += 1
            asked.append((question, self.serial))
            due()
            return costly(str(self.serial), COST)

        class Correct(limpet.Evaluator):
            name = "correct"
            endpoint = None
            fingerprint = {"version": "1"}  # noqa: RUF012

            async def call(_, one):  # noqa: N805
                self.serial += 1
                scored.append((one.item.id, int(one.output), self.serial))
                due()
                return {"score": limpet.Score(self.serial)}

        rows, run = limpet.Dataset(ROWS, limit=limit), self.run
        options = {"pace": 2, "retry": 0} | options
        return ended(limpet.evaluate, rows, workflow, [Correct()], run, **options)

    # ---- what is read ---------------------------------------------------------------------------

    def check(self):
        """Compare what the files tell with the model: also while a redo is not done."""
        with RunReader(self.run) as reader:
            read, redos = list(reader.items()), reader.counting.redos
        items = dict(zip(sorted(self.reported), read, strict=True))
        # Of a cell that was cut off before anything was written, no file has the name.
        assert all(item.id == id_ or item.id.startswith("#") for id_, item in items.items())
        assert [(one.steps, one.items) for one in redos] == [one[:2] for one in self.redos]
        for id_, item in items.items():
            answer = self.counting(id_, self.ran[-1])
            if item.output is not None:
                assert int(item.output) == answer[0]
                score = self.scores.get((id_, answer[0]))
                assert item.scores.get("correct", {}).get("value") == (score and score[0])
            else:  # nothing is there, or only of a version that is to be made anew
                assert answer is None or (id_, self.ran[-1]) not in self.answers


def _is_within(redo, spec):
    """Tell whether a redo asks for nothing that another does not ask for too."""
    (steps, items, _), (other_steps, other_items) = redo, spec
    is_all = other_items is None or (items is not None and items <= other_items)
    return is_all and steps <= other_steps


def step(world):
    """Do something, at random."""
    pick = world.random
    cut = pick.choice([{}, {}, {"stop": pick.randrange(8)}, {"kill": pick.randrange(8)}])
    limit = pick.choice([None, None, 2, 4])
    what = pick.randrange(7)
    if what == 0:
        world.version = world.latest = world.latest + 1
        world.go(on_change=pick.choice(["keep", "redo", None]), limit=limit, **cut)
    elif what == 6:  # an edit is undone
        world.version = pick.randint(1, world.latest)
        world.go(on_change=pick.choice(["keep", "redo", None]), limit=limit, **cut)
    elif what == 1:
        world.go(redo=["workflow"], limit=limit, **cut)
    elif what == 2:
        world.go(redo=["correct"], **cut)
    elif what == 3:
        steps = pick.choice([["workflow"], ["correct"], ["workflow", "correct"]])
        world.go(redo=steps, items=frozenset(pick.sample(IDS, 2)), **cut)
    else:
        world.go(limit=limit, **cut)


def play(home, seed, steps):
    world = World(home, random.Random(seed))
    for _ in range(steps):
        step(world)
        if world.reported:
            world.check()
    world.go(on_change="redo")  # whatever happened: this does all that is left
    world.check()
    with RunReader(world.run) as reader:
        assert reader.state == "finished"
        assert not reader.counting.redos
    world.go()
    assert not world.redos


@pytest.mark.parametrize("seed", range(3))
def test_sessions_in_any_order_do_what_a_model_says(tmp_path, seed):
    play(tmp_path, seed, steps=8)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_many_sessions_in_any_order_do_what_a_model_says(tmp_path, seed):
    play(tmp_path, seed, steps=20)
