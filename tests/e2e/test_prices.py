"""A price is found by either name of a model, and what it does not fit is said."""

import pytest
from model_server import completion, model_server

import limpet
from limpet.models import openai_api
from limpet.report.summary import remarks
from limpet.workflows import openai

ROWS = [{"id": f"q{n}", "question": f"question {n}"} for n in range(2)]
USAGE = {"prompt_tokens": 900_000, "completion_tokens": 100_000, "total_tokens": 1_000_000}
PRICE = {"prompt": 1, "completion": 10}
GOOD = '{"reason": "it fits", "label": "correct"}'


def dated(request, _):
    """Answer as providers do: with the name of a version."""
    return completion(GOOD, usage=USAGE, model=f"{request['model']}-2025-04-14")


def evaluate(tmp_path, server, prices, *names, **options):
    judge = limpet.judge([openai_api(server.url, model=n, key=None) for n in names], "{{output}}?")
    workflow = openai(server.url, model="gpt-4.1", key=None, prompt="{{question}}")
    options = {"run": tmp_path / "run", "prices": prices, "show": False, "retry": 0, **options}
    return limpet.evaluate(ROWS, workflow, [judge], **options), workflow, judge


def costs(result):
    steps = [result.summary["workflow"], *result.summary["evaluators"].values()]
    return [step["usage"].get("cost") for step in steps]


@pytest.mark.parametrize("name", ["gpt-4.1", "gpt-4.1-2025-04-14", "*"])
def test_a_price_is_found_by_either_name(tmp_path, name):
    with model_server(dated) as server:
        result, *_ = evaluate(tmp_path, server, {name: PRICE}, "gpt-4.1")
    assert costs(result) == [pytest.approx(3.8), pytest.approx(3.8)]
    assert "prices" not in result.summary
    assert result.summary["workflow"]["requested"] == {"gpt-4.1-2025-04-14": "gpt-4.1"}
    assert not [line for line in remarks(result.summary, 1.0) if "price" in line]


def test_votes_on_disk_are_priced_by_the_name_that_was_asked_for(tmp_path):
    with model_server(dated) as server:
        evaluate(tmp_path, server, None, "gpt-4.1")
        model = openai_api(server.url, model="gpt-4.1", key=None)
        judge = limpet.judge(model, "{{output}}?", choices={"correct": 7, "incorrect": 3})
        workflow = openai(server.url, model="gpt-4.1", key=None, prompt="{{question}}")
        result = limpet.evaluate(
            ROWS, workflow, [judge], run=tmp_path / "run", prices={"gpt-4.1": PRICE}, show=False
        )
    assert len(server.asked) == 4  # nothing again
    assert costs(result)[1] == pytest.approx(3.8)


def test_a_price_that_matched_nothing_and_a_model_without_one_are_said(tmp_path):
    prices = {"gpt-4.1": PRICE, "gpt-5": PRICE}
    with model_server(dated) as server:
        result, *_ = evaluate(tmp_path, server, prices, "gpt-4.1", "o9")
        again, *_ = evaluate(tmp_path, server, prices, "gpt-4.1", "o9")  # nothing is left to do
    assert costs(result) == [pytest.approx(3.8), None]
    for each in (result, again):
        assert each.summary["prices"] == {"unused": ["gpt-5"], "missing": ["o9-2025-04-14"]}
        lines = remarks(each.summary, 1.0)
        assert "no model that was called is named gpt-5: the price is not used" in lines
        assert "o9-2025-04-14: no price, so the cost is unknown" in lines


def test_the_plan_says_it_before_anything_is_spent(tmp_path):
    prices = {"gpt-4.1": PRICE, "gpt-5": PRICE}
    with model_server(dated) as server:
        models = [openai_api(server.url, model=name, key=None) for name in ("gpt-4.1", "o9")]
        judge = limpet.judge(models, "{{output}}?")
        workflow = openai(server.url, model="gpt-4.1", key=None, prompt="{{question}}")
        plan = limpet.plan(ROWS, workflow, [judge], run=tmp_path / "run", prices=prices)
    assert server.asked == []
    gaps = "by the requested names, no price for o9 and no model for the price of gpt-5"
    assert f"; {gaps}\n" in str(plan)


def test_a_plan_that_knows_the_servers_names_takes_prices_by_them(tmp_path):
    prices = {"gpt-4.1-2025-04-14": PRICE}
    with model_server(dated) as server:
        _, workflow, judge = evaluate(tmp_path, server, prices, "gpt-4.1")
        more = [*ROWS, {"id": "new", "question": "?"}]
        plan = limpet.plan(more, workflow, [judge], run=tmp_path / "run", prices=prices)
    assert plan.calls == 2
    assert plan.prices == ""


def test_a_function_may_ask_any_model_so_no_price_is_said_to_be_for_none(tmp_path):
    plan = limpet.plan(ROWS, lambda question: "!", prices={"gpt-5": PRICE}, run=tmp_path / "run")
    assert plan.prices == ""
    result = limpet.evaluate(
        ROWS, lambda question: "!", prices={"gpt-5": PRICE}, run=tmp_path / "run", show=False
    )
    assert result.summary["prices"] == {"unused": ["gpt-5"], "missing": []}


PAID = {"prompt_tokens": 1_000_000, "completion_tokens": 0}


def pays(question):
    return limpet.Output("!", usage=PAID)


def test_a_functions_usage_that_names_no_model_is_said_to_have_no_price(tmp_path):
    prices = {"small": PRICE, "big": PRICE}
    options = {"run": tmp_path / "run", "prices": prices, "show": False}
    words = "the usage that your function returns names no model"
    with pytest.raises(limpet.LimpetError, match=f"{words} and has no price") as stopped:
        limpet.evaluate(ROWS, pays, budget={"cost": 1}, **options)
    assert 'prices: {"*": {' in stopped.value.hint  # a bare * is an alias in YAML
    result = limpet.evaluate(ROWS, pays, **options)
    assert f"{words}, so its cost is unknown" in remarks(result.summary, 1.0)


def test_a_usage_that_reports_its_cost_needs_no_price(tmp_path):
    prices = {"small": PRICE, "big": PRICE}

    def knows(question):
        return limpet.Output("!", usage=limpet.Usage(5, 5, cost=0.5))

    result = limpet.evaluate(ROWS, knows, prices=prices, run=tmp_path / "run", show=False)
    assert not any("unknown" in line for line in remarks(result.summary, 1.0))


def test_a_cost_says_that_it_leaves_out_what_was_made_without_prices(tmp_path):
    limpet.evaluate(ROWS[:1], pays, run=tmp_path / "run", show=False)
    result = limpet.evaluate(ROWS, pays, run=tmp_path / "run", prices={"m": PRICE}, show=False)
    assert costs(result) == [1.0]
    (line,) = [line for line in remarks(result.summary, 1.0) if "all results" in line]
    assert line.endswith("2,000,000 tokens · $1.00 without 1 result that had no price")


def test_where_nothing_answered_no_price_is_said_to_be_for_none(tmp_path):
    def fails(question):
        raise limpet.PermanentError("no")

    result = limpet.evaluate(ROWS, fails, prices={"gpt-5": PRICE}, run=tmp_path, show=False)
    assert "prices" not in result.summary


CACHED = {
    "prompt_tokens": 1_000_000,
    "completion_tokens": 0,
    "prompt_tokens_details": {"cached_tokens": 300_000, "cache_write_tokens": 500_000},
}


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        ({"prompt": 1, "cached": 0.1, "cache_write": 1.25}, 0.2 + 0.03 + 0.625),
        ({"prompt": 1, "cached": 0.1}, 0.7 + 0.03),  # written: at the price of the prompt
        ({"cache_write": 2}, 1.0),
    ],
)
def test_tokens_written_to_a_cache_have_a_price(tmp_path, price, cost):
    with model_server(lambda request, _: completion("x", usage=CACHED, model="m-1")) as server:
        workflow = openai(server.url, model="m", key=None, prompt="{{question}}")
        result = limpet.evaluate(
            ROWS[:1], workflow, [], run=tmp_path / "run", prices={"m": price}, show=False
        )
    usage = result.summary["workflow"]["usage"]
    assert usage["cost"] == pytest.approx(cost)
    assert usage["cache_write_tokens"] == 500_000
    assert result.items[0].usage.cache_write_tokens == 500_000


def test_counts_that_add_up_to_more_than_the_prompt_cost_nothing_less_than_zero(tmp_path):
    odd = {"prompt_tokens": 10, "completion_tokens": 0, "cached_tokens": 8, "cache_write_tokens": 8}
    with model_server(lambda request, _: completion("x", usage=odd)) as server:
        workflow = openai(server.url, model="m", key=None, prompt="{{question}}")
        result = limpet.evaluate(
            ROWS[:1], workflow, [], run=tmp_path / "run", prices={"m": {"prompt": 1}}, show=False
        )
    assert result.summary["workflow"]["usage"]["cost"] == pytest.approx(16e-6)


def test_a_budget_reserves_for_a_prompt_that_is_written_to_a_cache(tmp_path):
    price = {"prompt": 0, "completion": 0, "cache_write": 1_000_000}  # one for each token
    with model_server("x") as server:
        params = {"max_tokens": 1}
        workflow = openai(server.url, model="m", key=None, prompt="{{question}}", params=params)
        with pytest.raises(limpet.LimpetError, match="budget"):
            limpet.evaluate(
                ROWS, workflow, [], run=tmp_path / "run", prices={"m": price}, show=False,
                budget={"cost": 5},
            )  # fmt: skip
    assert server.asked == []
