"""What will the calls of a plan cost, going by the results that are there?"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from limpet.errors import JournalError
from limpet.journal.files import read_whole
from limpet.journal.layout import Layout
from limpet.run.planning.plan import Plan, StepPlan
from limpet.run.results.costs import Prices
from limpet.run.results.price_names import planned_gaps
from limpet.run.run_file import WORKFLOW


def with_expected_costs(
    plan: Plan, layout: Layout, steps: Iterable[Any], prices: Prices | None
) -> Plan:
    """Return a plan whose steps know what a result cost on average in the last session.

    Args:
        plan: The plan.
        layout: The run's layout.
        steps: The workflow and the evaluators.
        prices: What a million tokens cost, by model.
    """
    if not plan.calls:
        return plan
    known = _last_numbers(layout)
    workflow, *evaluators = (_with_cost(step, known) for step in (plan.workflow, *plan.evaluators))
    gaps = planned_gaps(prices, steps, known.values())
    return replace(plan, workflow=workflow, evaluators=tuple(evaluators), prices=gaps)


def _last_numbers(layout: Layout) -> dict[str, Mapping[str, Any]]:
    """Return the numbers of each step in the last session; empty if nothing is known."""
    try:
        summary = json.loads(read_whole(layout.home / "summary.json"))
        numbers = {WORKFLOW: summary["workflow"], **summary["evaluators"]}
    except (OSError, JournalError, ValueError, KeyError, TypeError):
        return {}  # there was no session, or its summary is damaged
    return {name: found for name, found in numbers.items() if isinstance(found, Mapping)}


def _with_cost(step: StepPlan, known: Mapping[str, Any]) -> StepPlan:
    numbers = known.get(step.name)
    try:
        usage, completed = numbers["usage"], numbers["completed"]  # type: ignore[index]
        tokens, cost = usage.get("total_tokens"), usage.get("cost")
        return replace(
            step,
            tokens_each=tokens / completed if tokens else None,
            cost_each=cost / completed if cost else None,
        )
    except (TypeError, KeyError, AttributeError, ZeroDivisionError):
        return step  # it calls no model, or does not say what it used
