"""Each ready prompt has a page with its text, its labels and its weak spots."""

from pathlib import Path

import pytest

from limpet.evaluators.judge_prompt import READY, Prompt, ready_prompt

PAGES = Path(__file__).parents[2] / "docs/reference"
ALL = sorted(READY)


@pytest.mark.parametrize("name", ALL)
def test_its_page_has_its_text_word_for_word(name):
    page = (PAGES / f"judges/{name}.md").read_text(encoding="utf-8")
    assert f"```text\n{ready_prompt(name).text}\n```" in page
    assert "## Where it is weak" in page
    for label, value in ready_prompt(name).choices.items():
        assert f"`{label}` ({value})" in page


@pytest.mark.parametrize("name", ALL)
def test_its_text_explains_each_of_its_labels(name):
    ready = ready_prompt(name)
    for label in ready.choices:
        assert f'- "{label}": ' in ready.text


def test_the_page_of_judges_lists_each_with_what_it_reads_and_its_labels():
    page = (PAGES / "judges.md").read_text(encoding="utf-8")
    for name in ALL:
        ready = ready_prompt(name)
        (row,) = [line for line in page.splitlines() if line.startswith(f"| [`{name}`]")]
        reads = row.split("|")[2]
        for part in Prompt(ready.text, "").reads:
            assert f"`{part.removeprefix('row.')}`" in reads
        labels = ", ".join(f"{label} {value}" for label, value in ready.choices.items())
        assert row.endswith(f"| {labels} |")
    assert sorted(path.stem for path in (PAGES / "judges").iterdir()) == ALL
