"""An unknown or missing key is reported with the closest known one."""

import pytest
from unit.config.refusals import GOOD, a_folder, refusal  # noqa: F401 - a fixture

TOP = (
    "name, dataset, models, workflow, run, trials, evaluators, matrix, pace, retry, timeout, "
    "engine, on_change, env_file, retry_failed, secrets, mask, "
    "fail_fast, stop_when, budget, stall, prices, output"
)
READS = (
    "path, python, id, input, expected, on_bad_row, limit, sample, shuffle, seed, sheet, "
    "delimiter, encoding, filter"
)


# What the file holds, what is said, and the hint.
REFUSED = {
    # Keys
    "an unknown key": (
        "dataset: questions.jsonl\nworkflw: app:answer\n",
        "eval.yml:2: unknown key 'workflw'",
        f"did you mean 'workflow'?  (known here: {TOP})",
    ),
    "a key like no other": (
        GOOD + "zzz: 1\n",
        "eval.yml:3: unknown key 'zzz'",
        f"known here: {TOP}",
    ),
    "an unknown key of the dataset": (
        "workflow: app:answer\ndataset:\n  path: questions.jsonl\n  on-bad-rows: skip\n",
        "eval.yml:4: dataset: unknown key 'on-bad-rows'",
        f"did you mean 'on_bad_row'?  (known here: {READS})",
    ),
    "the filter of the dataset under the name of show's": (
        "workflow: app:answer\ndataset:\n  path: questions.jsonl\n  where: {lang: de}\n",
        "eval.yml:4: dataset: unknown key 'where'",
        f"did you mean 'filter'?  (known here: {READS})",
    ),
    "a key at the wrong level": (
        "workflow: app:answer\ndataset:\n  path: questions.jsonl\n  trials: 2\n",
        "eval.yml:4: dataset: unknown key 'trials'",
        f"'trials' belongs at the top level of the file  (known here: {READS})",
    ),
    "an unknown key of the workflow": (
        "dataset: questions.jsonl\nworkflow: {python: 'app:answer', versoin: '3'}\n",
        "eval.yml:2: workflow: unknown key 'versoin'",
        (
            "did you mean 'version'?  "
            "(known here: python, args, nat, http, command, version, depends_on, engine)"
        ),
    ),
    "an unknown key of what is depended on": (
        "dataset: questions.jsonl\nworkflow:\n  python: app:answer\n  depends_on: {fils: [a]}\n",
        "eval.yml:4: workflow.depends_on: unknown key 'fils'",
        "did you mean 'files'?  (known here: files, env, packages)",
    ),
    "an unknown key of a price": (
        GOOD + "prices:\n  gpt-x: {promt: 1}\n",
        "eval.yml:4: prices.gpt-x: unknown key 'promt'",
        "did you mean 'prompt'?  (known here: prompt, completion, cached, cache_write)",
    ),
    "an unknown key of the pace": (
        GOOD + "pace:\n  concurency: 3\n",
        "eval.yml:4: pace: unknown key 'concurency'",
        "did you mean 'concurrency'?  (known here: concurrency, max_concurrency, remember, share)",
    ),
    "an unknown key of the retry": (
        GOOD + "retry: {retries: 3}\n",
        "eval.yml:3: retry: unknown key 'retries'",
        "did you mean 'max_retries'?  (known here: max_retries, max_timeouts, backoff)",
    ),
    "an unknown key of the backoff": (
        GOOD + "retry:\n  backoff:\n    bass: 3\n",
        "eval.yml:5: retry.backoff: unknown key 'bass'",
        "did you mean 'base'?  (known here: base, cap)",
    ),
    "an unknown key of the output": (
        GOOD + "run: {pth: x}\n",
        "eval.yml:3: run: unknown key 'pth'",
        "did you mean 'path'?  (known here: path, durability)",
    ),
    "no dataset": (
        "workflow: app:answer\n",
        "eval.yml:1: dataset is missing",
        "write dataset: questions.jsonl",
    ),
    "no workflow": (
        "dataset: questions.jsonl\n",
        "eval.yml:1: workflow is missing",
        "write workflow: app:answer",
    ),
    "an empty workflow": (
        "dataset: questions.jsonl\nworkflow:\n",
        "eval.yml:2: workflow: is empty",
        "write workflow: app:answer",
    ),
    "a dataset without its place": (
        "workflow: app:answer\ndataset:\n  limit: 3\n",
        "eval.yml:2: dataset: needs path or python",
        "write dataset: questions.jsonl",
    ),
    "a workflow without its place": (
        "dataset: questions.jsonl\nworkflow: {version: '3'}\n",
        (
            "eval.yml:2: workflow: needs python or nat or http or command or openai or anthropic "
            "or gemini or ollama or bedrock"
        ),
        "write workflow: app:answer",
    ),
    "a path and a function": (
        "workflow: app:answer\ndataset:\n  path: questions.jsonl\n  python: app:rows\n",
        "eval.yml:4: dataset.python: cannot be used with path: keep one of path and python",
        None,
    ),
}


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.replace(" ", "-"))
def test_what_is_wrong_is_said_with_its_line(case):
    text, said, hint = REFUSED[case]
    assert refusal(text) == (said, hint)
