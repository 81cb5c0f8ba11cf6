"""Any byte of a column or of its index may be missing or wrong: what is whole still counts."""

import asyncio
import fcntl
import os
from types import SimpleNamespace

import pytest
from crash.laboratory import (
    STEP,
    column_at,
    index_at,
    key_of,
    lines_of,
    outcome_of,
    put_back,
    read_all,
    record_of,
    same,
    snapshot,
    some_outcomes,
    write,
)

from limpet.journal import Cell, ColumnReader, Journal, Outcome, verify
from limpet.journal import index as index_module
from limpet.journal.files import open_to_read
from limpet.journal.index import MOST_GENERATIONS

slow = [pytest.mark.slow, pytest.mark.timeout(900)]
FLIPS = [0x01, 0x20, 0x80, 0xFF, 0x0A]  # the last makes a line end of some byte only by chance


@pytest.fixture(scope="module")
def dozen(tmp_path_factory):
    """A real column of a dozen records, and what each of its lines holds."""
    home = tmp_path_factory.mktemp("dozen")
    outcomes = some_outcomes()
    write(home, outcomes[:4], outcomes[4:9], outcomes[9:])
    raw = column_at(home).read_bytes()
    assert len(lines_of(raw)) == len(outcomes) == 12
    return SimpleNamespace(raw=raw, index=index_at(home).read_bytes(), outcomes=outcomes)


@pytest.fixture(scope="module")
def hundreds(tmp_path_factory):
    """A column of some hundred records, written in several groups, one record forced again."""
    home = tmp_path_factory.mktemp("hundreds")
    groups = [[outcome_of(n, 20) for n in range(at, at + 25)] for at in range(0, 200, 25)]
    again = outcome_of(3)._replace(record={"answer": "forced"}, generation=1)
    write(home, *groups, [again], [outcome_of(200, 20)])
    wanted = {key_of(number): record_of(number, 20) for number in range(201)}
    wanted[key_of(3)] = {"answer": "forced"}
    index = index_at(home).read_bytes()
    assert len(index) == 32 * 202
    return SimpleNamespace(raw=column_at(home).read_bytes(), index=index, wanted=wanted)


def wanted_of(outcomes):
    """What counts, where just these lines are whole: the first of the highest generation."""
    best = {}
    for outcome in outcomes:
        known = best.get(outcome.cell.key)
        if known is None or outcome.generation > known.generation:
            best[outcome.cell.key] = outcome
    return {key: outcome.record for key, outcome in best.items()}


def assert_holds(home, wanted, keys):
    """Open for writing: those records are there, and of these keys no others."""
    found = {key: entry.record for key, entry in read_all(home, keys).items()}
    assert found.keys() == wanted.keys()
    assert all(same(found[key], record) for key, record in wanted.items())


def attack(home, raw, kept, *, index=None):
    """Open these bytes for writing, see what is kept, append, and open once more.

    Returns the bytes that were set aside in `torn/`.
    """
    wanted = wanted_of(kept)
    keys = {outcome.cell.key for outcome in some_outcomes()}
    put_back(home, raw, index)
    assert_holds(home, wanted, keys)
    torn = b"".join(path.read_bytes() for path in sorted((home / "torn").glob("*")))
    left = column_at(home).read_bytes()
    assert left + torn in (raw, raw + b"\n"), "a byte was changed that recovery has no right to"
    more = Outcome(Cell(STEP, "more", 0, key_of("more")), record={"more": 1})
    write(home, [more])
    assert_holds(home, wanted | {key_of("more"): {"more": 1}}, keys | {key_of("more")})
    state = verify(home).states[0]
    assert not state.torn_bytes
    assert not state.lacked_line_end
    assert column_at(home).read_bytes().startswith(left)
    return torn


def attack_with_and_without_index(home, raw, kept, index):
    torn = attack(home, raw, kept)
    assert attack(home, raw, kept, index=index) == torn


def cuts_of(raw, step):
    """Every `step`-th place, and all places around the line ends."""
    near = {at + by for at, byte in enumerate(raw) if byte == 10 for by in (-1, 0, 1, 2)}
    return sorted(at for at in {*range(0, len(raw) + 1, step), *near} if at <= len(raw))


@pytest.mark.parametrize("step", [263, pytest.param(1, marks=slow)])
def test_a_column_cut_at_any_byte_keeps_every_whole_record(tmp_path, dozen, step):
    ends = []
    for line in lines_of(dozen.raw):
        ends.append((ends[-1] if ends else 0) + len(line))
    for cut in cuts_of(dozen.raw, step):
        # A line that lost its line end and nothing else is whole: it gets it back.
        whole = sum(end - 1 <= cut for end in ends)
        kept = dozen.outcomes[:whole]
        start = ends[whole - 1] if whole else 0
        for index in (None, dozen.index):
            torn = attack(tmp_path, dozen.raw[:cut], kept, index=index)
            assert torn == dozen.raw[start:cut]


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "tail",
    [
        b"\0",
        b"\0" * 5000,
        b"\0" * 100 + b"\n" + b"\0" * 100,
        b"garbage",
        b"gar\nbage\n",
        b"\xff\xfe\n\x80",
        b"\xef\xbb\xbf",
        b'{"_limpet":{"key":"',
        b'{"_limpet":{"key":"00"},"_crc":"00000000"}\n',
        b'{"a": [',
        b"{" * 100_000 + b"\n",
        b"[" * 100_000 + b"\n",
        b"1" * 5000 + b"\n",
        b"\r",
        b"12",
    ],
    ids=lambda tail: repr(tail[:12]),
)
def test_a_tail_of_zeros_or_garbage_is_trimmed_and_kept_in_torn(tmp_path, dozen, tail):
    for index in (None, dozen.index):
        torn = attack(tmp_path, dozen.raw + tail, dozen.outcomes, index=index)
        assert torn == tail or not tail.strip()


def flipped(raw, at, value):
    return raw[:at] + bytes([raw[at] ^ value]) + raw[at + 1 :]


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("step", "flips"), [(23, [0x20]), (37, [0xFF, 0x01]), pytest.param(1, FLIPS, marks=slow)]
)
def test_a_flipped_byte_costs_no_more_than_the_record_it_is_in(tmp_path, dozen, step, flips):
    raw = b"".join(lines_of(dozen.raw)[1:5])  # marked, wrapped, wide, and one with our names
    outcomes = dozen.outcomes[1:5]
    for at in [one for one in cuts_of(raw, step) if one < len(raw)]:
        line = raw.count(b"\n", 0, at)
        hit = {line, line + 1} if raw[at] == 10 else {line}
        kept = [outcome for number, outcome in enumerate(outcomes) if number not in hit]
        for flip in flips:
            torn = attack(tmp_path, flipped(raw, at, flip), kept)
            is_last = max(hit) >= len(outcomes) - 1
            assert bool(torn) == is_last, "damage before a valid line keeps its bytes"


@pytest.mark.parametrize("step", [97, pytest.param(1, marks=slow)])
def test_a_flip_behind_the_back_of_an_index_gives_no_wrong_record(tmp_path, hundreds, step):
    lines = lines_of(hundreds.raw)[:40]
    raw, index = b"".join(lines), hundreds.index[: 32 * 40]
    for at in range(0, len(raw), step):
        put_back(tmp_path, flipped(raw, at, 0x20), index)
        touched = raw.count(b"\n", 0, at)
        untouched = {key_of(number) for number in range(40)} - {
            key_of(touched),
            key_of(touched + (raw[at] == 10)),
        }
        found = read_all(tmp_path, [key_of(number) for number in range(40)])
        assert untouched <= found.keys()
        for key in untouched:
            assert found[key].record == hundreds.wanted[key] or key == key_of(3)
        touched_entry = found.get(key_of(touched))
        assert touched_entry is None or touched_entry.record == record_of(touched, 20)


def test_a_missing_line_end_costs_no_more_than_its_two_lines(tmp_path, dozen):
    lines = lines_of(dozen.raw)
    for number in range(len(lines) - 1):
        raw = b"".join([*lines[:number], lines[number][:-1], *lines[number + 1 :]])
        kept = dozen.outcomes[:number] + dozen.outcomes[number + 2 :]
        attack_with_and_without_index(tmp_path, raw, kept, dozen.index)


def test_a_line_that_is_there_twice_changes_nothing(tmp_path, dozen):
    lines = lines_of(dozen.raw)
    for number, line in enumerate(lines):
        for place in (number, len(lines)):
            raw = b"".join([*lines[:place], line, *lines[place:]])
            assert attack(tmp_path, raw, dozen.outcomes) == b""
            assert attack(tmp_path, raw, dozen.outcomes, index=dozen.index) == b""


def test_a_missing_line_costs_that_line_only_whatever_the_index_says(tmp_path, dozen):
    lines = lines_of(dozen.raw)
    for number in range(len(lines)):
        raw = b"".join(lines[:number] + lines[number + 1 :])
        kept = dozen.outcomes[:number] + dozen.outcomes[number + 1 :]
        attack_with_and_without_index(tmp_path, raw, kept, dozen.index)


def test_two_lines_that_changed_places_are_both_found(tmp_path, dozen):
    lines = lines_of(dozen.raw)
    for number in range(len(lines) - 1):
        raw = b"".join([*lines[:number], lines[number + 1], lines[number], *lines[number + 2 :]])
        attack(tmp_path, raw, dozen.outcomes)


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    "foreign",
    [b"\n", b" \t\r\n", b'{"by": "others"}\n', b"[1,2]\n", b"null\n", b'"text"\n', b"3\n\n4\n"],
)
def test_lines_by_others_are_kept_and_stand_in_nobodys_way(tmp_path, dozen, foreign):
    lines = lines_of(dozen.raw)
    for number in range(len(lines) + 1):
        raw = b"".join([*lines[:number], foreign, *lines[number:]])
        attack_with_and_without_index(tmp_path, raw, dozen.outcomes, dozen.index)
        assert foreign in column_at(tmp_path).read_bytes()
        assert verify(tmp_path).is_sound


def test_a_line_others_add_while_we_write_moves_no_record(tmp_path):
    with Journal(tmp_path) as journal:
        column = journal.column(STEP)
        asyncio.run(append_one(column, outcome_of(0)))
        with column_at(tmp_path).open("ab") as other:
            other.write(b'{"by": "others"}\n')
        asyncio.run(append_one(column, outcome_of(1)))
        asyncio.run(append_one(column, outcome_of(2)))
        found = dict(column.read_many([key_of(number) for number in range(3)]))
        assert found.keys() == {key_of(number) for number in range(3)}
    assert len(read_all(tmp_path, [key_of(number) for number in range(3)])) == 3


async def append_one(column, outcome):
    return await column.append(outcome)


# ---- the index -----------------------------------------------------------------------------------


def assert_every_record_is_right(home, hundreds):
    found = read_all(home, hundreds.wanted)
    assert found.keys() == hundreds.wanted.keys()
    assert all(found[key].record == record for key, record in hundreds.wanted.items())
    reader = ColumnReader(column_at(home), index_at(home))
    assert reader.state.index == "good"
    assert len(reader) == len(hundreds.wanted)


def test_an_index_is_used_where_it_fits(tmp_path, hundreds):
    put_back(tmp_path, hundreds.raw, hundreds.index)
    assert ColumnReader(column_at(tmp_path), index_at(tmp_path)).state.index == "good"
    assert_every_record_is_right(tmp_path, hundreds)


def test_a_deleted_index_comes_back(tmp_path, hundreds):
    put_back(tmp_path, hundreds.raw)
    assert_every_record_is_right(tmp_path, hundreds)
    assert len(index_at(tmp_path).read_bytes()) == len(hundreds.index)


@pytest.mark.parametrize("step", [131, pytest.param(1, marks=slow)])
def test_an_index_cut_at_any_byte_loses_no_record(tmp_path, hundreds, step):
    for cut in range(0, len(hundreds.index), step):
        put_back(tmp_path, hundreds.raw, hundreds.index[:cut])
        assert_every_record_is_right(tmp_path, hundreds)


@pytest.mark.quick(2)
@pytest.mark.parametrize(
    ("step", "flip"),
    [(107, 0x01), (163, 0xFF), *(pytest.param(1, flip, marks=slow) for flip in (1, 0x80, 0xFF))],
)
def test_an_index_with_any_byte_flipped_gives_no_wrong_record(tmp_path, hundreds, step, flip):
    for at in range(0, len(hundreds.index), step):
        put_back(tmp_path, hundreds.raw, flipped(hundreds.index, at, flip))
        assert_every_record_is_right(tmp_path, hundreds)


@pytest.mark.parametrize("index", [b"\0" * 32 * 202, b"\xff" * 32 * 202, b"text\n" * 2000])
def test_an_index_that_is_none_at_all_is_made_anew(tmp_path, hundreds, index):
    put_back(tmp_path, hundreds.raw, index)
    assert_every_record_is_right(tmp_path, hundreds)


@pytest.mark.parametrize("step", [997, pytest.param(11, marks=slow)])
def test_a_column_shorter_than_its_index_keeps_every_whole_record(tmp_path, hundreds, step):
    for cut in range(0, len(hundreds.raw), step):
        put_back(tmp_path, hundreds.raw[:cut], hundreds.index)
        found = read_all(tmp_path, hundreds.wanted)
        put_back(tmp_path, hundreds.raw[:cut])
        expected = read_all(tmp_path, hundreds.wanted)
        assert found == expected
        whole = hundreds.raw.count(b"\n", 0, cut + 1)
        assert len(expected) >= min(200, whole)


@pytest.mark.parametrize(
    ("before", "after", "winner"),
    [(2, 1, 2), (1, 1, "first"), (1, 2, 2), (0, 0, "first"), (3, 0, 3)],
)
@pytest.mark.parametrize("has_index", [True, False])
def test_the_highest_generation_wins_over_a_reopening(tmp_path, before, after, winner, has_index):
    forced = outcome_of(0)._replace(record={"answer": "first"}, generation=before)
    write(tmp_path, [outcome_of(1)], [forced], [outcome_of(2)], [outcome_of(3)])
    if not has_index:
        index_at(tmp_path).unlink()
    later = outcome_of(0)._replace(record={"answer": "later"}, generation=after)
    expected = "first" if winner in ("first", before) else "later"
    with Journal(tmp_path) as journal:
        column = journal.column(STEP)
        asyncio.run(append_one(column, later))
        assert column.read(key_of(0)).record == {"answer": expected}
    for index in (None, index_at(tmp_path)):
        reader = ColumnReader(column_at(tmp_path), index)
        assert reader.read(key_of(0)).record == {"answer": expected}


def test_an_index_knows_no_other_winner_than_the_column_however_high_the_generation(tmp_path):
    def forced(generation):
        return outcome_of(0)._replace(record={"generation": generation}, generation=generation)

    write(tmp_path, *[[forced(one)] for one in (2, 300, MOST_GENERATIONS)], [outcome_of(1)])
    for index in (None, index_at(tmp_path)):
        found = ColumnReader(column_at(tmp_path), index).read(key_of(0))
        assert found.record == {"generation": MOST_GENERATIONS}
    with pytest.raises(ValueError, match=f"generation={MOST_GENERATIONS + 1}"):
        write(tmp_path, [forced(MOST_GENERATIONS + 1)])


# ---- reading only, and strict ----------------------------------------------------------------


@pytest.mark.parametrize("tail", [b"", b'{"_limpet":{"key":"', b"\0\0\0", b"garbage\n"])
def test_a_reader_changes_no_byte_and_takes_no_lock(tmp_path, dozen, tail):
    home = tmp_path / "journal"
    write(home, dozen.outcomes)
    with column_at(home).open("ab") as file:
        file.write(tail)
    before = snapshot(home)
    for index in (None, index_at(home), home / "nowhere.idx"):
        reader = ColumnReader(column_at(home), index)
        found = {key: entry.record for key, entry in reader.read_many(wanted_of(dozen.outcomes))}
        assert same(found, wanted_of(dozen.outcomes))
        assert reader.state.torn_bytes == len(tail)
    verify(home)
    assert snapshot(home) == before


def test_a_reader_reads_beside_a_writer_that_holds_the_lock(tmp_path, dozen):
    with Journal(tmp_path) as journal:
        asyncio.run(append_one(journal.column(STEP), dozen.outcomes[0]))
        with (tmp_path / "LOCK").open("rb") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        reader = ColumnReader(column_at(tmp_path), index_at(tmp_path))
        assert reader.read(key_of(0)).record == dozen.outcomes[0].record


@pytest.mark.parametrize("step", [31, pytest.param(3, marks=slow)])
def test_a_reader_ignores_an_unfinished_last_line(tmp_path, dozen, step):
    for cut in cuts_of(dozen.raw, step):
        put_back(tmp_path, dozen.raw[:cut], dozen.index)
        whole = dozen.raw.count(b"\n", 0, cut)
        wanted = wanted_of(dozen.outcomes[:whole])
        before = snapshot(tmp_path)
        for index in (None, index_at(tmp_path)):
            reader = ColumnReader(column_at(tmp_path), index)
            found = {key: one.record for key, one in reader.read_many(wanted)}
            assert same(found, wanted)
            assert len(reader) == len(wanted)
        assert snapshot(tmp_path) == before


def test_a_damaged_record_asked_for_twice_is_left_out_and_no_crash(tmp_path, dozen):
    key = key_of(1)
    raw = lines_of(dozen.raw)
    damaged = b"".join([raw[0], flipped(raw[1], 60, 0x20), *raw[2:]])
    put_back(tmp_path, damaged, dozen.index)
    reader = ColumnReader(column_at(tmp_path), index_at(tmp_path))
    assert list(reader.read_many([key, key])) == []
    assert key not in reader


def test_an_index_that_cannot_be_read_or_written_is_done_without(tmp_path, dozen):
    put_back(tmp_path, dozen.raw)
    index_at(tmp_path).mkdir(parents=True)  # a directory: neither reading nor writing works
    reader = ColumnReader(column_at(tmp_path), index_at(tmp_path))
    assert len(reader) == len(wanted_of(dozen.outcomes))
    found = read_all(tmp_path, wanted_of(dozen.outcomes))
    assert len(found) == len(wanted_of(dozen.outcomes))


@pytest.mark.timeout(5)
@pytest.mark.parametrize("change", ["emptied", "deleted"])
def test_an_index_that_goes_while_it_is_read_does_not_hold_up_its_reader(
    tmp_path, hundreds, change, monkeypatch
):
    put_back(tmp_path, hundreds.raw, hundreds.index)

    def open_and_lose(path, *rest):
        # Just now another process opens the journal for writing and makes the index anew.
        file = open_to_read(path, *rest)
        assert os.fstat(file.fileno()).st_size > 32 * 100
        if change == "emptied":
            os.truncate(path, 0)
        else:
            path.unlink()
        return file

    monkeypatch.setattr(index_module, "open_to_read", open_and_lose)
    reader = ColumnReader(column_at(tmp_path), index_at(tmp_path))
    assert len(reader) == len(hundreds.wanted)


def test_a_single_file_with_two_steps_loses_no_record(tmp_path):
    path = tmp_path / "out.jsonl"
    with Journal(path) as journal:
        one, other = journal.column("one"), journal.column("other")
        for number in range(6):
            asyncio.run(append_one((one, other)[number % 2], outcome_of(number)))
        for number in range(6):
            assert (one, other)[number % 2].read(key_of(number)).record == record_of(number)
    reader = ColumnReader(path, journal.layout.index(path))
    assert [os.fspath(reader.path), len(reader)] == [os.fspath(path), 6]
    assert all(reader.read(key_of(number)) is not None for number in range(6))
