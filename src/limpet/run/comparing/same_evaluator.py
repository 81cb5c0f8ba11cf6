"""Did the same evaluator score both runs, on the same scale?"""

from collections.abc import Collection

from limpet.run.comparing.opened_run import OpenedRun, named
from limpet.run.comparing.results import LeftOut
from limpet.text import one_line


def same_evaluator(
    base: OpenedRun, new: OpenedRun, evaluator: str, allow: Collection[str]
) -> tuple[LeftOut | None, str | None]:
    """Return why the scores of an evaluator cannot be compared, and what must be known of it."""
    name, note = one_line(evaluator), None
    for run, other in ((base, new), (new, base)):
        if evaluator not in run.table.evaluators:
            why = f"only {named(other)} has the evaluator {name}"
            return LeftOut("evaluators", evaluator, why), None
    one, another = base.fingerprint(evaluator), new.fingerprint(evaluator)
    if not (one and another):
        run = new if one else base
        note = f"{named(run)} does not say which evaluator {name} was: it may have been another"
    elif one != another:
        differs = f"the evaluator {name} differs between the runs"
        if "evaluators" not in allow:
            why = f"{differs}: its code, its prompt or its settings were changed"
            return LeftOut("evaluators", evaluator, why, allow="evaluators"), None
        note = f"{differs}, and is compared as allowed"
    why = _other_scale(base, new, evaluator)
    return (LeftOut("evaluators", evaluator, why) if why else None), note


def _other_scale(base: OpenedRun, new: OpenedRun, evaluator: str) -> str:
    """Return how the scales differ; empty: they do not."""
    name, scales = one_line(evaluator), (base.scale(evaluator), new.scale(evaluator))
    if scales[0].higher_is_better != scales[1].higher_is_better:
        run = base if scales[0].higher_is_better else new
        return f"a higher score of {name} is better only in {named(run)}"
    ranges = [scale.range for scale in scales]
    if None not in ranges and ranges[0] != ranges[1]:
        words = [
            f"{range_words(limits)} in {named(run)}"
            for limits, run in zip(ranges, (base, new), strict=True)
        ]
        return f"the range of {name} is {' and '.join(words)}"
    return ""


def range_words(limits: tuple[float, float] | None) -> str:
    """Return a range: `1 to 5`."""
    return "any number" if limits is None else f"{limits[0]:g} to {limits[1]:g}"
