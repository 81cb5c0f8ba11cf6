"""Configurations of every published shape: the same answers and scores as `nat eval`.

`nat/corpus` has the configurations and a record of what `nat eval` made of each, made by people who
had not seen our code. Where we differ on purpose, it is said here.
"""

import fcntl
import json
import subprocess

import pytest
from peers.nat_environment import (
    PARTS,
    UnavailableError,
    environment_variables,
    nat_environment,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

CORPUS = PARTS / "corpus"
CASES = json.loads((CORPUS / "cases.json").read_text(encoding="utf-8"))
# Not run: one needs S3. In the others a model refuses (429) all that it is asked, or all that is
# left; refusals do not count against `--max-retries`, so that Limpet asks on, every 15 seconds.
NOT_RUN = (
    "41_judge_failures",
    "42_judge_failures_atif",
    "43_judge_busy",
    "45_model_fails",
    "50_s3",
    "56_retries",
)
RUN = [name for name in CASES if name not in NOT_RUN]
WHOLE = 1
TOGETHER = 1500.0

VALUES_STAY = "the toolkit reads the string as a number"
JSON_FORM = "the toolkit scores objects before they are written; a run that resumes could not"
NEW_IDS = "rows without an id get one each; the toolkit gives all of them an empty one"
# Evaluators whose scores differ, and why.
DIFFERENT = {
    ("25_custom_evaluators", "rank"): "it needs all items at once",
    ("26_failing_evaluators", "no_items"): "no score is a failure",
    ("26_failing_evaluators", "odd_scores"): "a score that is a word is a label",
    ("26_failing_evaluators", "odd_items"): "scores of other items are a failure",
    ("32_react_agent_atif", "groundedness"): JSON_FORM,
    ("32_react_agent_atif", "relevance"): JSON_FORM,
    ("39_skip_workflow", "equal"): VALUES_STAY,
    ("69_no_workflow", "equal"): VALUES_STAY,
    ("72_no_ids", "equal"): NEW_IDS,
    ("46_langsmith", "exact"): VALUES_STAY,
    ("47_ragas_metrics", "skipped"): "skip: true",
    ("48_numbers_and_ragas", "exact"): VALUES_STAY,
    ("48_numbers_and_ragas", "accuracy"): VALUES_STAY,
    ("60_any_object", "equal"): JSON_FORM,
}
# Runs whose answers differ, and why.
OTHER_ANSWERS = {
    "37_pre_eval_and_scripts": "the answer on disk is the workflow's",
    "69_no_workflow": VALUES_STAY,
    "72_no_ids": NEW_IDS,
    "39_skip_workflow": VALUES_STAY,
}
# Refused before anything runs, where `nat eval` goes on.
REFUSED = {
    "51_empty_dataset": "no row",
    "63_evaluator_named_workflow": "reserved",
}


@pytest.fixture(scope="module")
def ours(tmp_path_factory, worker_id):
    """Run all of them, once for all workers, and return the records by name."""
    try:
        commands = nat_environment()
    except UnavailableError as error:
        pytest.skip(f"the NeMo Agent Toolkit cannot be installed here: {error}")
    folder = tmp_path_factory.getbasetemp()  # of a worker, in that of all
    made = (folder if worker_id == "master" else folder.parent) / "nat-corpus.jsonl"
    with made.open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if not made.stat().st_size:
            done = subprocess.run(
                [commands / "python", CORPUS / "ours.py", *RUN],
                env=environment_variables(),
                capture_output=True,
                text=True,
                timeout=TOGETHER,
                check=False,
            )
            assert done.returncode == 0, done.stderr[-3000:]
            file.write(done.stdout)
    records = map(json.loads, made.read_text(encoding="utf-8").splitlines())
    return {record["name"]: record for record in records}


def theirs(name):
    return json.loads((CORPUS / "expected" / name / "record.json").read_text(encoding="utf-8"))


def failed_there(name, evaluator, item):
    """Return whether `nat eval` wrote a score for something that failed."""
    fails = CASES[name].get("fails", {})
    if str(item["id"]) in (id_ for ids in fails.values() if ids is not WHOLE for id_ in ids):
        return True
    reasoning = item["reasoning"]
    raised = reasoning.get("error") if isinstance(reasoning, dict) else None
    return bool(item["error"]) or str(raised).startswith("Evaluator error: ")


def scores_in(record):
    return {
        name: {str(item["id"]): item for item in scores["items"]}
        for name, scores in record["scores"].items()
    }


def test_the_corpus_is_all_there():
    assert len(RUN) >= 60


RUNNING = [name for name in RUN if not CASES[name].get("fails", {}).get("run")]


@pytest.mark.parametrize("name", [name for name in RUNNING if name not in REFUSED])
def test_answers_and_scores_are_those_of_nat_eval(ours, name):
    record, known = ours[name], theirs(name)
    case = CASES[name]
    if known.get("answers"):
        broken = set(case.get("fails", {}).get("workflow", ()))
        answers = record["answers"]
        assert len(answers) == len(known["answers"]), record["said"]
        if isinstance(answers, dict) and name not in OTHER_ANSWERS:
            for id_, answer in known["answers"].items():
                assert answers[id_] == (None if id_ in broken else answer), id_
            assert [str(id_) for id_ in record["order"]] == [str(id_) for id_ in known["order"]]
            assert {k: v for k, v in record["steps"].items() if k not in broken} == {
                k: v for k, v in known["steps"].items() if k not in broken
            }
        elif not isinstance(answers, dict) and name not in OTHER_ANSWERS:
            assert answers == known["answers"]
    mine = scores_in(record)
    for evaluator, items in scores_in(known).items():
        if (name, evaluator) in DIFFERENT or evaluator in case.get("measured", ()):
            continue
        for id_, item in items.items():
            score = mine[evaluator][id_]["score"]
            if failed_there(name, evaluator, item):
                assert score is None or score == item["score"], (evaluator, id_)
            else:
                assert score == item["score"], (evaluator, id_, mine[evaluator][id_])


@pytest.mark.parametrize("name", [name for name in RUN if name not in RUNNING])
def test_what_nat_eval_loses_is_kept_or_refused(ours, name):
    """`nat eval` writes nothing at all for these."""
    record = ours[name]
    assert record["exit_code"] in (1, 2), record["said"]
    assert record["exit_code"] == 2 or record["answers"]


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_work_is_refused(ours, name):
    assert ours[name]["exit_code"] == 2
    assert REFUSED[name] in ours[name]["said"]


def test_a_judge_that_refuses_every_third_call_costs_no_score(ours):
    record = ours["44_every_third_refused"]
    assert record["exit_code"] == 0
    assert None not in [item["score"] for item in record["scores"]["own"]["items"]]


def test_the_toolkits_own_files_are_written(ours):
    assert "standardized_data_all.csv" in ours["35_profiler"]["files"]
    assert "workflow_output_atif.json" in ours["32_react_agent_atif"]["files"]
