"""`limpet show --item` tells everything about an item."""

import io

from rich.console import Console

import limpet
from limpet.report.item import item_lines
from limpet.run.reading import open_run


def test_what_an_item_used_is_shown_with_its_small_cost(tmp_path):
    usage = limpet.Usage(prompt_tokens=12_340, completion_tokens=5, cost=0.0012)
    run = tmp_path / "run"
    limpet.evaluate([{"id": "a", "input": "x"}], lambda x: limpet.Output("x", usage=usage), run=run)
    text = io.StringIO()
    with open_run(str(run)) as reader:
        for whole in reader.item("a"):
            Console(file=text, width=200).print(*item_lines(whole))
    assert "prompt_tokens 12,340 · completion_tokens 5 · total_tokens 12,345" in text.getvalue()
    assert "cost 0.0012" in text.getvalue()
