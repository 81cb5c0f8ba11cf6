"""How does a judge compare with people, on a terminal?"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from limpet.report.comparison import number
from limpet.report.tables import cell, plain_table
from limpet.report.words import shown
from limpet.run.calibrating.calibration import Agreement, Calibration, Disagreement
from limpet.run.calibrating.corrected import Corrected
from limpet.run.results.score_words import as_exact, with_ends
from limpet.text import count, one_line

_MOST_ROWS = 20


def calibration_lines(found: Calibration) -> Iterator[RenderableType]:
    """Yield the lines and tables of a calibration."""
    name = one_line(found.score)
    of_draw = "" if found.drawn == found.labelled else f", {found.drawn:,} of them drawn"
    yield Text(f"{name} against people: {count(found.labelled, 'label')}{of_draw}", style="bold")
    yield Text("")
    if found.agreement is not None:
        yield from map(Text, _agreement(found.agreement))
        if found.others is not None:
            yield Text(f"agreement on answers that were not drawn: {_share(found.others)}")
        yield Text("")
        yield _confusion(found.agreement)
        yield Text("")
    elif found.difference is not None:
        yield Text(f"they are {number(found.difference)} apart on average")
        yield Text("")
    if found.corrected is not None:
        yield from map(Text, _means(name, found.corrected))
        yield Text("")
    if found.disagreements:
        more = len(found.disagreements) - _MOST_ROWS
        yield Text(f"they disagree on {count(len(found.disagreements), 'answer')}", style="bold")
        yield Text("")
        yield _disagreements(found.disagreements[:_MOST_ROWS])
        if more > 0:
            yield Text(f"… and {more:,} more: --json", style="dim")


def _agreement(agreement: Agreement) -> Iterator[str]:
    yield f"agreement {_share(agreement)}"
    kappa = agreement.kappa
    if kappa is None:
        yield "kappa is undefined: both gave every answer the same label"
    else:
        yield f"kappa {with_ends(kappa.value, asdict(kappa))}"


def _share(agreement: Agreement) -> str:
    ends = f"{agreement.low:.1%}–{agreement.high:.1%}"
    return f"{agreement.mean:.1%} ({ends}), {agreement.same:,} of {agreement.n:,}"


def _means(name: str, corrected: Corrected) -> Iterator[str]:
    interval = asdict(corrected)
    by_people = with_ends(corrected.mean, interval)
    raw = as_exact(corrected.raw, interval)
    yield f"mean by {name}: {raw}, of {count(corrected.items, 'item')}"
    yield (
        f"corrected by people: {by_people}, {corrected.method}, "
        f"{count(corrected.n_labelled, 'label')}"
    )


def _confusion(agreement: Agreement) -> Table:
    people = {word for row in agreement.confusion.values() for word in row}
    titles = sorted({*people, *agreement.confusion})
    names = [f"people: {one_line(title)}" for title in titles]
    table = plain_table("judge", *names, numbers=names)
    for word, row in agreement.confusion.items():
        table.add_row(cell(one_line(word)), *(f"{row.get(title, 0):,}" for title in titles))
    return table


def _disagreements(found: Sequence[Disagreement]) -> Table:
    trials = any(each.trial for each in found)
    titles = ["id", *(["trial"] if trials else []), "judge", "people", "input", "output", "reason"]
    table = plain_table(*titles, fixed=["id"], numbers=["trial"] if trials else [])
    for each in found:
        cells = {
            "id": one_line(each.id),
            "trial": f"{each.trial}",
            "judge": one_line(each.judge),
            "people": one_line(each.people),
            "input": shown(each.input),
            "output": shown(each.output),
            "reason": one_line(each.reason),
        }
        table.add_row(*(cell(cells[title]) for title in titles))
    return table
