"""Is an edit seen that may change an answer, and only such an edit?"""

import pytest

from identity import (
    attacks,
    attacks_last,
    attacks_on_effects,
    attacks_on_values,
    cases,
    shared_values,
    strangers,
)
from identity.probing import Probe
from limpet.fingerprints.identity import changed_parts

TABLES = (cases, strangers, attacks, attacks_on_effects, attacks_on_values, attacks_last)
TABLES += (shared_values,)


def each_third(kind):
    """Take all edits of a kind; each third of a table is enough for a quick look."""
    return [
        pytest.param(edit, id=edit.name, marks=[pytest.mark.slow] if number % 3 else [])
        for table in TABLES
        for number, edit in enumerate(getattr(table, kind))
    ]


@pytest.fixture(scope="module")
def probe():
    probe = Probe()
    yield probe
    probe.close()


@pytest.mark.quick(4)
@pytest.mark.parametrize("edit", each_third("RERUN"))
def test_an_edit_that_may_change_an_answer_is_seen(tmp_path, probe, edit):
    before, after = probe.before_and_after(tmp_path, edit)
    assert before["fingerprint"] != after["fingerprint"]


@pytest.mark.quick(3)
@pytest.mark.parametrize("edit", each_third("KEEP"))
def test_an_edit_that_changes_no_answer_is_none(tmp_path, probe, edit):
    before, after = probe.before_and_after(tmp_path, edit)
    parts = {*before["parts"].items()} ^ {*after["parts"].items()}
    assert sorted({name for name, _ in parts}) == []


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("edit", "touched"), [pytest.param(*case, id=case[0].name) for case in shared_values.ONLY]
)
def test_only_what_was_edited_is_named(tmp_path, probe, edit, touched):
    before, after = probe.before_and_after(tmp_path, edit)
    assert changed_parts(before["parts"], after["parts"]) == touched
