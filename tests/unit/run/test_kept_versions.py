"""An answer counts if the present code made it, or if the user kept it for the present code."""

from collections import Counter

import pytest
from costly import costly

import limpet

ITEMS = 5
COST = 0.3  # so Limpet asks about four answers, and makes three again without asking
KEEP, REDO = {"on_change": "keep"}, {"on_change": "redo"}
FORCED = {"redo": True}  # --redo
TRY = {"limit": 3}
MORE = {"items": ITEMS + 1}


def only(*ids):
    return {"redo": limpet.Redo(items=[*ids])}


class Project:
    """A workflow that is edited back and forth; its answers name the version that made them."""

    def __init__(self, path):
        self.path = path

    def run(self, version, items=ITEMS, limit=None, **options):
        """Return who made the answers, and the calls this took; None: it asks."""
        calls = []

        async def answer(question):
            calls.append(question)
            return costly(version, COST)

        rows = [{"id": f"q{n}", "question": f"what {n}"} for n in range(items)]
        dataset = limpet.Dataset(rows, limit=limit)
        try:
            result = limpet.evaluate(
                dataset, answer, (), self.path, version=version, pace=1, **options
            )
        except limpet.FunctionChangedError:
            assert not calls
            return None
        made_by = Counter(item.output.value for item in result.items)
        return "".join(f"{number}{made}" for made, number in sorted(made_by.items())), len(calls)


SEQUENCES = {
    "kept, and kept again without a word": [
        ("A", {}, ("5A", 5)),
        ("B", {}, None),
        ("B", KEEP, ("5A", 0)),
        ("B", {}, ("5A", 0)),
        ("B", MORE, ("5A1B", 1)),
    ],
    "what another version was made to answer is not kept for this": [
        ("A", {}, ("5A", 5)),
        ("B", KEEP, ("5A", 0)),
        ("C", FORCED, ("5C", 5)),
        ("B", {}, ("5A", 0)),
        ("C", {}, ("5C", 0)),
    ],
    "nor is what it was tried with": [
        ("A", {}, ("5A", 5)),
        ("B", KEEP, ("5A", 0)),
        ("C", TRY, ("3C", 3)),
        ("B", {}, ("5A", 0)),
        ("C", {}, ("5C", 2)),
    ],
    "nor is the answer of a single item": [
        ("A", {}, ("5A", 5)),
        ("B", KEEP, ("5A", 0)),
        ("C", {**only("q1"), **TRY}, ("3C", 3)),
        ("B", {}, ("5A", 0)),
    ],
    "nor is the answer of a new item, which is made anew": [
        ("A", {}, ("5A", 5)),
        ("B", KEEP, ("5A", 0)),
        ("C", {**REDO, **MORE}, ("6C", 6)),
        ("B", MORE, ("5A1B", 1)),
    ],
    "an edit that is undone finds its own answers": [
        ("A", {}, ("5A", 5)),
        ("B", KEEP, ("5A", 0)),
        ("A", {}, ("5A", 0)),
        ("B", {}, ("5A", 0)),
        ("C", REDO, ("5C", 5)),
        ("A", {}, ("5A", 0)),
    ],
    "each edit asks anew": [
        ("A", {}, ("5A", 5)),
        ("B", KEEP, ("5A", 0)),
        ("C", {}, None),
        ("C", KEEP, ("5A", 0)),
        ("D", {}, None),
        ("B", {}, ("5A", 0)),
        ("D", {}, None),
    ],
    "what counted last is what the next version keeps": [
        ("A", {}, ("5A", 5)),
        ("B", KEEP, ("5A", 0)),
        ("C", {**FORCED, **TRY}, ("3C", 3)),
        ("B", {}, ("5A", 0)),
        ("D", KEEP, ("5A", 0)),
        ("D", {}, ("5A", 0)),
    ],
    "a mixture is kept as it is": [
        ("A", {}, ("5A", 5)),
        ("B", TRY, ("3B", 3)),
        ("C", {}, None),
        ("C", KEEP, ("2A3B", 0)),
        ("A", {}, ("5A", 0)),
        ("C", {}, ("2A3B", 0)),
    ],
    "a redo takes a decision to keep back": [
        ("A", {}, ("5A", 5)),
        ("B", KEEP, ("5A", 0)),
        ("B", REDO, ("5B", 5)),
        ("B", {}, ("5B", 0)),
        ("A", {}, ("5A", 0)),
        ("B", {}, ("5B", 0)),
    ],
    "and a decision to keep takes a redo back": [
        ("A", {}, ("5A", 5)),
        ("B", {**REDO, **TRY}, ("3B", 3)),
        ("B", KEEP, ("2A3B", 0)),
        ("B", {}, ("2A3B", 0)),
    ],
    "a redo of some items leaves the others kept": [
        ("A", {}, ("5A", 5)),
        ("B", KEEP, ("5A", 0)),
        ("B", only("q1"), ("4A1B", 1)),
        ("B", {}, ("4A1B", 0)),
        ("B", {**only("q2"), **KEEP}, ("3A2B", 1)),
        ("C", {}, None),
        ("C", KEEP, ("3A2B", 0)),
    ],
    "a decision about a few items is about the version that answered them": [
        ("A", {}, ("5A", 5)),
        ("B", {**KEEP, **TRY}, ("3A", 0)),
        ("B", {}, ("5A", 0)),
    ],
    "and not about the version that answered the others": [
        ("A", {}, ("5A", 5)),
        ("B", TRY, ("3B", 3)),
        ("C", {**KEEP, **TRY}, ("3B", 0)),
        ("C", {}, ("3B2C", 2)),
    ],
    "a try decides nothing": [
        ("A", {}, ("5A", 5)),
        ("B", TRY, ("3B", 3)),
        ("B", MORE, ("6B", 3)),
        ("A", MORE, ("6A", 1)),
    ],
}


@pytest.mark.quick(4)
@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES)
def test_after_any_edits_what_counts_is_the_present_codes_or_was_kept_for_it(tmp_path, sequence):
    project = Project(tmp_path / "run")
    for number, (version, options, expected) in enumerate(sequence):
        assert project.run(version, **options) == expected, (number, version, options)


@pytest.fixture
def prompt(tmp_path, monkeypatch):
    """Return a function that runs a workflow which answers with the text of its prompt file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "prompted_app.py").write_text(
        "from pathlib import Path\n"
        "from costly import costly\n"
        f"def answer(question): return costly(Path('prompt.txt').read_text(), {COST})\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    def run(text, limit=None, **options):
        (tmp_path / "prompt.txt").write_text(text)
        rows = [{"id": f"q{n}", "question": f"what {n}"} for n in range(ITEMS)]
        dataset = limpet.Dataset(rows, limit=limit)
        try:
            result = limpet.evaluate(dataset, "prompted_app:answer", (), "run", **options)
        except limpet.FunctionChangedError:
            return None
        return Counter(item.output.value for item in result.items)

    return run


@pytest.mark.parametrize("again", [FORCED, REDO])
def test_what_was_made_from_a_third_content_of_a_file_is_not_kept_for_the_second(prompt, again):
    assert prompt("kind") == {"kind": ITEMS}
    assert prompt("rude", **KEEP) == {"kind": ITEMS}
    assert prompt("rude") == {"kind": ITEMS}
    assert prompt("long", **again) == {"long": ITEMS}
    assert prompt("rude") is None
    assert prompt("rude", **KEEP) == {"long": ITEMS}
    assert prompt("rude") == {"long": ITEMS}


def test_what_a_third_content_was_tried_with_is_not_kept_for_the_second(prompt):
    prompt("kind")
    prompt("rude", **KEEP)
    assert prompt("long", **TRY) == {"long": 3}
    assert prompt("rude") is None
