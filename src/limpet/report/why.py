"""How is shown what a run's steps depend on, and what changed, as text and as data?"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from rich.text import Text

from limpet.fingerprints.identity import in_words, own_name
from limpet.fingerprints.part_contents import PartContent
from limpet.report.words import moment
from limpet.run.planning.changes import heading
from limpet.run.planning.why import ItemStory, StepWhy, Why
from limpet.shapes import Difference
from limpet.text import count, harmless, one_line

_GROUPS = {
    "function": "functions",
    "class": "classes",
    "value": "values",
    "docstring": "docstrings",
    "module": "modules",
    "file": "files",
    "variable": "variables",
    "package": "packages",
    "setting": "settings",
    "library": "libraries",
}
_PREFIXES = ("file of ", "module ", "file ", "variable ", "package ")
_WIDE = 78
_MOST_LINES, _MOST_DIFFERENCES = 60, 40
_MOST_NAMES, _MOST_LEFT_OUT = 24, 12
_STYLES = {"-": "red", "+": "green", "…": "dim"}
_VERDICTS = {"kept": "green", "runs": "yellow", "runs again": "yellow", "asks first": "red"}


def why_lines(why: Why, shown: str, *, everything: bool = False) -> Iterator[Text]:
    """Yield the explanation line by line; `everything` lists what is otherwise only counted."""
    how = (
        "compared with the current code" if why.looked else "records on disk only, without the code"
    )
    yield Text(one_line(shown), "bold") + Text(f" · {how}", "not bold")
    for remark in why.remarks:
        yield Text(f"note: {one_line(remark)}", "yellow")
    for story in why.item:
        yield Text("")
        yield from _story(story)
    for step in why.steps:
        if not why.item or step.compared in ("now", "asked"):
            yield Text("")
            yield from _step(step, covers=not why.item, everything=everything)
    if not why.steps:
        yield Text("")
        yield Text("no steps recorded", "dim")


def _step(step: StepWhy, *, covers: bool, everything: bool) -> Iterator[Text]:
    yield Text(one_line(step.name), "bold") + Text(f": {in_short(step)}", "not bold")
    yield from _differences(step.differences)
    if covers:
        yield from _covers(step) if everything else _counts(step)


def in_short(step: StepWhy) -> str:
    """Return in a few words whether a step changed."""
    many = count(len(step.differences), "difference")
    if step.compared == "now":
        return f"changed after its results were made, {many}"
    if step.compared == "asked":
        return f"changed after its results were made, {many}; you were asked what to do"
    if step.compared == "before":
        return f"unchanged since it last ran; its last change: {many}"
    return "unchanged; no earlier version recorded" if step.covers.fingerprint else "never run"


def _differences(differences: Sequence[Difference]) -> Iterator[Text]:
    left = _MOST_LINES
    for number, difference in enumerate(differences):
        if left <= 0 or number >= _MOST_DIFFERENCES:
            yield Text(f"  … and {len(differences) - number:,} more: --json", "dim")
            return
        yield Text(f"  {one_line(heading(difference))}", "cyan")
        for line in difference.lines[:left]:
            yield Text(f"    {harmless(line)}", _STYLES.get(line[:1], ""))
        if len(difference.lines) > left:
            yield Text(f"    … {len(difference.lines) - left:,} more lines: --json", "dim")
        left -= max(len(difference.lines), 1)


def _groups(step: StepWhy) -> dict[str, list[str]]:
    """Return the names of the parts of a step, by kind."""
    groups: dict[str, list[str]] = {}
    for name in step.covers.parts:
        shown = step.covers.shown.get(name, PartContent("value"))
        if shown.kind in _GROUPS and name not in step.state:
            # No comma inside an entry of a comma-separated list.
            called = shown.called.replace(", closed over by ", " in ")
            called = called or _bare(own_name(name, step.covers.parts))
            groups.setdefault(shown.kind, []).append(called)
    return groups


def _counts(step: StepWhy) -> Iterator[Text]:
    groups = _groups(step)
    counts = [
        count(len(groups[kind]), kind, plural) for kind, plural in _GROUPS.items() if kind in groups
    ]
    counts += [f"{count(len(step.files), 'file')} read"] if step.files else []
    parts = [f"covers {', '.join(counts)}"] if counts else []
    parts += [f"left out {len(step.covers.left_out):,}"] if step.covers.left_out else []
    parts += [f"state {len(step.state):,}"] if step.state else []
    if parts:
        for line in wrap(f"{'; '.join(parts)}: --all lists them", _WIDE - 2):
            yield Text(f"  {line}", "dim")


def _covers(step: StepWhy) -> Iterator[Text]:
    groups = _groups(step)
    if groups:
        yield Text("  covers", "cyan")
    for kind, title in _GROUPS.items():
        if kind in groups:
            yield from _listed(title, sorted(groups[kind]))
    if step.files:
        yield from _listed("files read", list(step.files))
    if step.covers.left_out:
        yield Text("  left out", "cyan")
        yield from _left_out(step)
    if step.state:
        yield Text("  state: changes while it runs; only its first value is compared", "cyan")
        yield from _listed("", list(step.state))
    if step.covers.shortened:
        yield Text("  long values were shortened when recorded", "dim")


def _bare(name: str) -> str:
    begin = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    words = in_words(name).removeprefix("the docstring of ") if not begin else ""
    return words or name.removeprefix(begin)


def _listed(title: str, names: Sequence[str]) -> Iterator[Text]:
    shown = [one_line(name) for name in names[:_MOST_NAMES]]
    more = len(names) - len(shown)
    text = ", ".join(shown) + (f" and {more:,} more" if more else "")
    begin = f"    {title:<11} " if title else "    "
    lines = wrap(text, _WIDE - len(begin), break_on_hyphens=False) or [""]
    for number, line in enumerate(lines):
        yield Text(begin if not number else " " * len(begin), "dim") + Text(line, "not dim")


def _left_out(step: StepWhy) -> Iterator[Text]:
    by_reason: dict[str, list[str]] = {}
    for name, reason in step.covers.left_out.items():
        by_reason.setdefault(reason, []).append(_bare(name))
    for number, (reason, names) in enumerate(by_reason.items()):
        if number >= _MOST_LEFT_OUT:
            yield Text(f"    … and {len(by_reason) - number:,} more reasons: --json", "dim")
            return
        yield Text(f"    {one_line(reason)}", "dim")
        for line in _listed("", names):
            yield Text("  ") + line


def _story(story: ItemStory) -> Iterator[Text]:
    yield Text(one_line(story.id), "bold")
    steps_by: dict[tuple[str, str, str], list[str]] = {}
    for fact in story.facts:
        steps_by.setdefault((fact.verdict, fact.why, fact.at), []).append(one_line(fact.step))
    width = min(max(len(", ".join(steps)) for steps in steps_by.values()), _WIDE // 3)
    for (verdict, why, at), steps in steps_by.items():
        begin = f"  {', '.join(steps):<{width}}  "
        yield Text(begin) + Text(verdict, _VERDICTS.get(verdict, ""))
        when = f" ({moment(at)})" if at else ""
        for line in wrap(one_line(why) + when, _WIDE - width - 4):
            yield Text(" " * (width + 4) + line)


def why_data(why: Why, shown: str) -> dict[str, Any]:
    """Return the explanation as JSON data."""
    return {
        "run": shown,
        "looked": "now" if why.looked else "disk",
        "remarks": list(why.remarks),
        "steps": {step.name: _step_data(step) for step in why.steps},
        "item": [asdict(story) for story in why.item],
    }


def _step_data(step: StepWhy) -> dict[str, Any]:
    covers = step.covers
    return {
        "fingerprint": covers.fingerprint,
        "compared": step.compared,
        "differences": [asdict(difference) for difference in step.differences],
        "parts": {
            name: {"digest": digest, "kind": covers.shown[name].kind}
            for name, digest in covers.parts.items()
        },
        "left_out": dict(covers.left_out),
        "state": list(step.state),
        "files_read": list(step.files),
        "shortened": covers.shortened,
    }
