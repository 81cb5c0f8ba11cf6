"""What are the results of a run, on a terminal?"""

from collections.abc import Iterator, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from limpet.report.tables import plain_table
from limpet.report.words import (
    by_current,
    by_error,
    duration,
    latency,
    skipped_rows,
    without_answer,
)
from limpet.run.results.costs import gap_lines, used_by
from limpet.run.results.score_numbers import EARLIER_ON_DISK, current, earlier_words
from limpet.run.results.score_words import (
    headline,
    label_counts,
    of_completed,
    people_notes,
    scores_of,
    span,
    stop_when_lines,
)
from limpet.text import count, money, one_line

_MEAN = "mean (95%)"
SUMMARY_TITLES = ("done", "failed", "not run", _MEAN, "note")


def summary_table(summary: Mapping[str, Any]) -> Table:
    """Return the steps of a run with the counts of their cells, and the means."""
    rows = list(summary_rows(summary))
    # Leave out empty columns: narrow terminals need the space.
    shown = [name for name in SUMMARY_TITLES if any(row[name] for _, row in rows)]
    table = plain_table("step", *shown, numbers=[name for name in shown if name != "note"])
    for step, row in rows:
        table.add_row(Text(step), *(row[name] for name in shown))
    return table


def summary_rows(summary: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield each step and each of its scores, with the cells of the table."""
    requested, workflow = summary["n"], summary["workflow"]
    yield "workflow", _counts(workflow, requested)
    lost = sum(workflow["failed"].values())
    for name, numbers in summary["evaluators"].items():
        scores = scores_of(summary, name)
        only = scores.pop(name, {})
        mean = "" if only.get("mean") is None and (scores or only.get("labels")) else headline(only)
        yield one_line(name), {**_counts(numbers, requested, lost, only), _MEAN: mean}
        for full_name, score in scores.items():
            words = {
                _MEAN: "" if score["mean"] is None else headline(score),
                "note": " · ".join(filter(None, _score_notes(score))),
            }
            part = full_name.removeprefix(f"{name}.")
            yield f"  {one_line(part)}", {**dict.fromkeys(SUMMARY_TITLES, ""), **words}


def _score_notes(score: Mapping[str, Any]) -> Iterator[str]:
    """Yield remarks on a score: how many values it has, why it has no interval, its labels."""
    if beside := of_completed(score):
        yield beside
    if score.get("interim") and score["mean"] is not None:
        yield "so far"
    yield score.get("interval_note", "")
    yield label_counts(score.get("labels", {}), score.get("label_intervals"))
    yield from people_notes(score)


def _counts(
    numbers: Mapping[str, Any],
    requested: int,
    lost: int = 0,
    score: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """Return the counts of a step.

    Args:
        numbers: Its numbers in the summary.
        requested: How many cells it has.
        lost: How many items have no answer, and so no score.
        score: The only score of an evaluator; empty: it has several; None: the workflow.
    """
    done, failed, not_run = current(numbers)
    return {
        "done": f"{done:,}/{requested - lost:,}",
        "failed": f"{failed:,}" if failed else "",
        "not run": f"{not_run - lost:,}" if not_run - lost else "",
        _MEAN: "",
        "note": " · ".join(filter(None, _notes(numbers, lost, score or {}))),
    }


def _notes(numbers: Mapping[str, Any], lost: int, score: Mapping[str, Any]) -> Iterator[str]:
    if lost and not of_completed(score):  # else it says how many have one
        yield without_answer(lost)
    if score:
        yield from _score_notes(score)
        yield from _about_scale(score)
    if "by_current_version" in numbers:
        yield by_current(numbers["by_current_version"], numbers["completed"])
    if truncated := numbers.get("truncated"):
        yield f"{truncated:,} truncated"
    if left := sum(numbers.get("redo", {}).values()):
        yield f"{left:,} to run again, earlier results kept"
    if (agreement := numbers.get("agreement")) is not None:
        yield f"votes agree {agreement:.0%}"
    if (flips := numbers.get("flip_rate")) is not None:
        yield f"{flips:.0%} flipped with the order"


def _about_scale(score: Mapping[str, Any]) -> Iterator[str]:
    """Yield how to read a score, unless it is from 0 to 1 and higher is better."""
    if (ends := score.get("range")) and tuple(ends) != (0, 1):
        yield f"scale {ends[0]:g} to {ends[1]:g}"
    if not score.get("higher_is_better", True):
        yield "lower is better"


def _jury_lines(summary: Mapping[str, Any]) -> Iterator[str]:
    """Yield how the models of each jury voted."""
    for name, numbers in summary["evaluators"].items():
        only = summary["scores"].get(name, {})
        by_model = numbers.get("votes_by_model", {}) if only.get("labels") else {}
        votes = [f"{one_line(model)} {label_counts(each)}" for model, each in by_model.items()]
        if votes:
            yield f"votes of {one_line(name)}: {'; '.join(votes)}"


def claim_lines(scores: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the methods of the intervals, and the results of several trials."""
    methods: dict[str, list[str]] = {}
    for name, score in scores.items():
        if interval := score.get("interval"):
            methods.setdefault(_method_words(score, interval), []).append(one_line(name))
    if methods:
        words = [f"{each} ({', '.join(names)})" for each, names in methods.items()]
        yield f"95% intervals: {'; '.join(words if len(words) > 1 else methods)}"
    if any("bounds" in score for score in scores.values()):
        yield "the range covers both extremes: every failed item scored worst, or best"
    yield from _trial_lines(scores)


def _method_words(score: Mapping[str, Any], interval: Mapping[str, Any]) -> str:
    """Return the method of an interval, with its groups: `by 75 groups of document`."""
    method, groups = str(interval["method"]), interval.get("groups")
    field = one_line(score.get("group") or "")
    return method if groups is None else method.replace("groups", f"{groups:,} groups of {field}")


def _trial_lines(scores: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield the results of several trials for each score, and whether more would help."""
    helped: dict[str, list[str]] = {}
    for name, score in scores.items():
        if words := "; ".join(_pass_words(score)):
            yield f"{one_line(name)}: {words}"
        if more := score.get("more_helps"):
            helped.setdefault(more, []).append(one_line(name))
    for more, names in helped.items():
        other = "trials" if more == "items" else "items"
        which = f" ({', '.join(names)})" if len(helped) > 1 else ""
        yield f"for narrower intervals, more {more} help more than more {other}{which}"


def interval_notes(scores: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Yield why means have no interval."""
    for name, score in scores.items():
        if note := score.get("interval_note"):
            yield f"{one_line(name)}: {one_line(note)}"


def _pass_words(about: Mapping[str, Any]) -> Iterator[str]:
    """Yield how often one of all trials succeeds, and how often all do."""
    for name, sign, which in (("pass_at_k", "@", "at least one of"), ("pass_hat_k", "^", "all")):
        if by_k := about.get(name):
            k, most = list(by_k.items())[-1]
            ends = f" ({span(most['low'], most['high'])})" if "low" in most else ""
            yield f"{which} {k} trials right (pass{sign}{k}): {most['mean']:.3f}{ends}"


def _latency_lines(workflow: Mapping[str, Any]) -> Iterator[str]:
    """Yield how long the workflow's calls took."""
    if (seconds := workflow.get("quantiles", {}).get("seconds")) and workflow["completed"] > 1:
        half, most, nearly_all = (latency(seconds[name]) for name in ("p50", "p90", "p99"))
        yield (f"workflow: median {half}, p90 {most}, p99 {nearly_all} per call")


def remarks(summary: Mapping[str, Any], seconds: float) -> list[str]:
    """Return remarks on a run that has ended, a line each."""
    steps = {"workflow": summary["workflow"], **summary["evaluators"]}
    parts = [f"took {duration(seconds)}", *used_words(used_by(steps.values()))]
    lines = [*claim_lines(summary["scores"]), " · ".join(parts)]
    lines += _latency_lines(summary["workflow"])
    models = summary["workflow"].get("models", {})
    if len(models) > 1:
        each = (
            f"{one_line(name)} {used.get('total_tokens', 0):,}" for name, used in models.items()
        )
        lines.append(f"tokens by model: {', '.join(each)}")
    lines += _jury_lines(summary)
    if selection := summary.get("selection"):
        whole = count(selection["of"], "item")
        lines.append(f"{selection['items']:,} of {whole} (selected in this session)")
    lines += stop_when_lines(summary)
    if budget := summary.get("budget"):
        lines.append(f"budget: {budget['words']}")
    lines += gap_lines(summary)
    lines += skipped_rows(summary.get("bad_rows", ()))
    if given_up := summary.get("given_up"):
        calls = count(given_up, "call")
        lines.append(f"abandoned {calls} in flight, not recorded and possibly paid for")
    lines += masked_words(summary)
    for name, numbers in steps.items():
        if numbers["failed"]:
            lines.append(f"{one_line(name)} failed: {by_error(numbers['errors'])}")
        if again := sum(n for kind, n in numbers.get("redo", {}).items() if kind != "pending"):
            kept = "the earlier results are kept"
            lines.append(f"{one_line(name)}: {again:,} failed when run again; {kept}")
    return lines + earlier_words(summary["workflow"].get(EARLIER_ON_DISK, 0))


def used_words(used: Mapping[str, float]) -> Iterator[str]:
    """Yield the tokens and the cost of all results."""
    if tokens := used.get("tokens"):
        yield f"all results used {count(int(tokens), 'token')}"
    if cost := used.get("cost"):
        unpriced = int(used.get("unpriced", 0))
        without = f" without {count(unpriced, 'result')} that had no price" if unpriced else ""
        yield f"${money(cost)}{without}"


def masked_words(summary: Mapping[str, Any]) -> list[str]:
    """Return remarks on secrets that were masked on disk, a line each."""
    lines = []
    if masked := summary.get("masked"):
        lines.append(f"secrets are masked in {count(masked, 'line')} on disk")
    for name, numbers in summary.get("evaluators", {}).items():
        if saw := numbers.get("saw_masked"):
            lines.append(f"{one_line(name)} scored {count(saw, 'answer')} with secrets masked")
    return lines
