"""Where the numbers stand in what Limpet writes: a renamed key is one edit here."""

import json
from pathlib import Path

import pytest

from tests.numbers.command import limpet, strict_json

MISSING = object()


def get(thing, *keys):
    """Return a value by its path through mappings and attributes; MISSING if it is not there."""
    for key in keys:
        mapped = isinstance(thing, dict)
        thing = thing.get(key, MISSING) if mapped else getattr(thing, key, MISSING)
        if thing is MISSING:
            return MISSING
    return thing


def anywhere(thing, *names):
    """Return the first value under one of these names, at any depth; MISSING without one."""
    if isinstance(thing, dict):
        for name in names:
            if name in thing:
                return thing[name]
        thing = list(thing.values())
    if isinstance(thing, list):
        for one in thing:
            found = anywhere(one, *names)
            if found is not MISSING:
                return found
    return MISSING


def number(thing):
    """Return a number that stands alone or as the mean of an object."""
    if not isinstance(thing, dict):
        return thing
    return next(thing[name] for name in ("mean", "value", "estimate", "kappa") if name in thing)


def about(value, tolerance=5e-4):
    return pytest.approx(value, abs=tolerance)


def says(text, value):
    """Return whether a text has this number, in one of the ways people write it."""
    percent = 100 * value
    forms = [f"{value:.2f}", f"{value:.3f}", f"{value:.4f}", f"{value:.4g}", f"{percent:.1f}"]
    if abs(percent - round(percent)) < 0.05:
        forms.append(f"{percent:.0f}%")
    return any(form.lstrip("-") in text for form in forms)


# ---- the summary --------------------------------------------------------------------------------


def summary(run):
    return strict_json((Path(run) / "summary.json").read_text(encoding="utf-8"))


def score(run, name="correct"):
    """Return what summary.json says of a score; `judge.tone` is one of several."""
    return summary(run)["scores"][name]


def interval(found):
    """Return the two ends over completed cells; None where a sentence says why there are none."""
    given = found.get("interval")
    if given is None:
        assert found["mean"] is None or found["interval_note"], f"no interval: {sorted(found)}"
        return None
    return given["low"], given["high"]


def method(found):
    return found["interval"]["method"].lower()


def bounds(found):
    """Return the failure-honest ends; None where there are none."""
    given = found.get("bounds")
    return None if given is None or given["low"] is None else (given["low"], given["high"])


# ---- a comparison -------------------------------------------------------------------------------


def compare(*words, code=0, cwd=None):
    """Return what `limpet compare --json` printed; it has to end with this code."""
    done = limpet("compare", *words, "--json", cwd=cwd)
    assert done.code == code, done.said
    assert "Traceback" not in done.said
    return done.json


def compared(found, name="correct", which=0):
    return found["new"][which]["scores"][name]


def ends(found):
    return None if found["low"] is None else (found["low"], found["high"])


def left_out(found, which=0):
    return json.dumps(found["new"][which]["left_out"], ensure_ascii=False).lower()


def flips(found, which=0):
    return found["new"][which]["flips"]


def verdicts(found):
    return {gate["name"]: gate["verdict"] for gate in found["gates"]}


def adjusted(found):
    """Return the p that is corrected for several comparisons."""
    value = anywhere(found, "p_holm", "p_adjusted", "p_bh", "q")
    assert value is not MISSING, f"no corrected p: {sorted(found)}"
    return value
