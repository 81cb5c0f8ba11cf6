"""Whatever is written is read back, whatever happens in between."""

import asyncio
import math
import shutil
import tempfile
from pathlib import Path

from hypothesis import example, given, settings
from hypothesis import strategies as st

from limpet.fingerprints.keys import digest
from limpet.journal import Cell, ColumnReader, Journal, Outcome, verify

STEP = "workflow"

odd_text = st.sampled_from(
    ["\x85", "\u2028", "\x00", "\ud800", "a\udfffb", "\n", "\r\n", "~float:nan", "~~int:0x1", "~"]
)
text = st.one_of(
    odd_text,
    st.text(max_size=20),
    st.text(st.characters(codec=None, exclude_categories=()), max_size=5),
)
wide = st.one_of(
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.sampled_from([2**63, 2**64, -(2**63) - 1, 10**4100]),
)
atoms = st.one_of(st.none(), st.booleans(), wide, st.floats(), text)
keys = st.one_of(text, st.sampled_from(["_crc", "_limpet", "value", "marked", "key", "status"]))
values = st.recursive(
    atoms,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4),
    max_leaves=12,
)


def same(one, other):
    """Equal, with NaN equal to NaN, and types told apart."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other


async def append_all(column, outcomes):
    return await asyncio.gather(*[column.append(outcome) for outcome in outcomes])


def outcome_of(number, record):
    return Outcome(Cell(STEP, f"q{number}", 0, digest(number)), record=record)


@given(st.lists(st.tuples(values, text), min_size=1, max_size=5))
@example([([[]] * 3, ""), ({"a": {}}, "\ud800"), (math.nan, "~float:nan")])
def test_any_value_is_read_back_as_it_was_written(tmp_path_factory, pairs):
    home = tmp_path_factory.mktemp("journal")
    outcomes = [
        Outcome(Cell(STEP, name, number, digest(number)), record=record)
        for number, (record, name) in enumerate(pairs)
    ]
    with Journal(home, durability="flush") as journal:
        column = journal.column(STEP)
        answers = asyncio.run(append_all(column, outcomes))
        assert all(answer is outcome for answer, outcome in zip(answers, outcomes, strict=True))
        readers = [column, ColumnReader(column.path), ColumnReader(column.path, home / "none")]
        for reader in readers:
            for outcome in outcomes:
                entry = reader.read(outcome.cell.key)
                assert same(entry.record, outcome.record)
                assert entry.facts["id"] == outcome.cell.id
                assert entry.facts["trial"] == outcome.cell.trial
    raw = column.path.read_bytes()
    assert raw.count(b"\n") == len(outcomes)
    raw.decode()  # UTF-8, every byte of it
    assert verify(home).is_sound
    shutil.rmtree(home)


# ---- crashes ---------------------------------------------------------------------------------


class Life:
    """One journal through appends, crashes and reopenings, and what it has acknowledged."""

    def __init__(self, place):
        self._place = place
        self._lives = 0
        self._number = 0
        self.acknowledged = {}
        self.home = place / "0"
        self._journal = None

    @property
    def path(self):
        return self.home / f"{STEP}_output.jsonl"

    @property
    def column(self):
        if self._journal is None:
            self._journal = Journal(self.home, durability="flush")
        return self._journal.column(STEP)

    def append(self, records):
        outcomes = []
        for record in records:
            outcomes.append(outcome_of(self._number, record))
            self._number += 1
        asyncio.run(append_all(self.column, outcomes))
        self.acknowledged |= {outcome.cell.key: outcome.record for outcome in outcomes}

    def close(self):
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def crash(self, records, share, tail, *, keeps_index):
        """Stop in the middle of a write: some of the last bytes are there, and perhaps junk."""
        column = self.column
        safe = self.path.stat().st_size
        outcomes = [outcome_of(f"lost {self._lives} {n}", one) for n, one in enumerate(records)]
        asyncio.run(append_all(column, outcomes))
        self._lives += 1
        copy = self._place / str(self._lives)
        shutil.copytree(self.home, copy)  # as it is at this moment, with the journal open
        self.close()
        self.home = copy
        with self.path.open("r+b") as file:
            end = file.seek(0, 2)
            file.truncate(safe + int((end - safe) * share))
            file.seek(0, 2)
            file.write(tail)
        if not keeps_index:
            shutil.rmtree(self.home / "index")

    def check(self):
        column = self.column
        for key, record in self.acknowledged.items():
            assert same(column.read(key).record, record)
        for index in (None, self._journal.layout.index(self.path)):
            reader = ColumnReader(self.path, index)
            found = {key: entry.record for key, entry in reader.read_many(self.acknowledged)}
            assert same(found, self.acknowledged)
            assert len(reader) == len(column)


some = st.lists(st.one_of(values, st.just({"text": "x" * 3000})), max_size=4)
events = st.one_of(
    st.tuples(st.just("append"), some),
    st.tuples(st.just("reopen")),
    st.tuples(
        st.just("crash"),
        some,
        st.floats(0, 1),
        st.sampled_from([b"", b"\0" * 40, b"junk", b'{"_limpet":{"key":"', b"ju\nnk\n", b"\xff"]),
        st.booleans(),
    ),
)


@settings(max_examples=20 if settings.default.derandomize else 400)
@given(st.lists(events, min_size=1, max_size=8))
def test_any_row_of_appends_crashes_and_reopenings_keeps_what_was_acknowledged(row):
    with tempfile.TemporaryDirectory() as place:
        life = Life(Path(place))
        try:
            for event, *facts in row:
                if event == "append":
                    life.append(*facts)
                elif event == "reopen":
                    life.close()
                else:
                    records, share, tail, keeps_index = facts
                    life.crash(records, share, tail, keeps_index=keeps_index)
                life.check()
        finally:
            life.close()
        assert verify(life.home).is_sound


# ---- digests ---------------------------------------------------------------------------------


def shuffled(value, turn):
    """The same value, its keys put in in another order."""
    if isinstance(value, dict):
        names = list(value)
        turn %= max(1, len(names))
        return {name: shuffled(value[name], turn) for name in [*names[turn:], *names[:turn]][::-1]}
    if isinstance(value, list):
        return [shuffled(one, turn) for one in value]
    return value


@given(values, st.integers(0, 5))
def test_a_digest_does_not_depend_on_the_order_of_keys(value, turn):
    assert digest(value) == digest(shuffled(value, turn))
    assert len(digest(value)) == 32


@given(values, values)
@example(1, "1")
@example(1, 1.0)
@example(1, True)
@example(0, False)
@example(0, None)
@example(None, "null")
@example([], {})
@example([1, 2], [[1, 2]])
@example({"a": None}, {})
@example("~float:nan", math.nan)
@example("~float:inf", math.inf)
@example({"a": "~float:nan", "b": 1}, {"a": math.nan, "b": 1})
@example(2**64, float(2**64))
@example(10**4100, hex(10**4100))
@example("\ud800", "\\ud800")
def test_a_digest_tells_different_values_apart(one, other):
    assert (digest(one) == digest(other)) == same(one, other)


@given(st.lists(values, max_size=3), st.lists(values, max_size=3))
def test_a_digest_of_several_values_knows_where_one_ends(one, other):
    assert (digest(*one) == digest(*other)) == same(one, other)
