"""What becomes of the results that are there, whoever comes and whatever fails?"""

import json
import subprocess
import sys

import pytest
from e2e import ready_limpet
from e2e.nat_server import CLEANUP, HOLD, aside, go, make, output, serving
from e2e.project import run
from e2e.servers import unanswered_port


def test_a_finished_run_stays_where_it_is_until_the_server_is_known_to_be_there(tmp_path):
    make(tmp_path, general=CLEANUP % "")
    with serving() as server:
        assert go(tmp_path, server).returncode == 0
    done = run(tmp_path, "config.yml", "--endpoint", f"http://127.0.0.1:{unanswered_port()}")
    assert done.returncode == 2
    assert "connection refused" in done.stderr
    assert aside(tmp_path) == []
    assert output(tmp_path, "correct")["average_score"] == 1.0


def test_results_of_nat_eval_stay_too(tmp_path):
    make(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "workflow_output.json").write_text("[]", encoding="utf-8")
    done = run(tmp_path, "config.yml", "--endpoint", f"http://127.0.0.1:{unanswered_port()}")
    assert done.returncode == 2
    assert aside(tmp_path) == []


SCRIPT = """
import subprocess, sys
command = [sys.executable, "-m", "limpet", "run", "config.yml", "--endpoint", sys.argv[-1]]
done = subprocess.run(command, capture_output=True, text=True)
open("seen.txt", "w").write(f"{done.returncode} {done.stderr}")
"""


def test_nobody_moves_a_run_while_its_scripts_are_at_work(tmp_path, server):
    scripts = f", custom_scripts: {{again: {{script: again.py, kwargs: {{url: '{server.url}'}}}}}}"
    make(tmp_path, general=CLEANUP % scripts)
    (tmp_path / "again.py").write_text(SCRIPT, encoding="utf-8")
    assert go(tmp_path, server).returncode == 0
    seen = (tmp_path / "seen.txt").read_text(encoding="utf-8")
    assert seen.startswith("2 ")
    assert "is writing here" in seen
    assert aside(tmp_path) == []
    assert len(server.asked) == 6


def test_a_finished_run_that_another_has_just_taken_up_is_not_moved(tmp_path, server):
    make(tmp_path, general=CLEANUP % "")
    assert go(tmp_path, server).returncode == 0
    command = [sys.executable, "-c", HOLD, "out"]
    with ready_limpet.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        done = go(tmp_path, server)
        other.stdin.close()
    assert done.returncode == 2
    assert f"process {other.pid}" in done.stderr
    assert aside(tmp_path) == []
    assert go(tmp_path, server).returncode == 0
    assert len(aside(tmp_path)) == 1


def recorded(folder, answers):
    rows = [
        {"id": f"{n:03d}", "question": f"Repeat {n}", "answer": str(n), "generated_answer": one}
        for n, one in enumerate(answers)
    ]
    (folder / "old.json").write_text(json.dumps(rows), encoding="utf-8")
    return run(folder, "config.yml", "--skip-workflow", "--dataset", "old.json")


def test_answers_of_rows_that_were_scored_once_are_scored_again_without_the_rows(tmp_path):
    make(tmp_path, rows=2)
    assert recorded(tmp_path, ["0", "x"]).returncode == 0
    make(tmp_path, rows=2, evaluators="    short: {_type: regex, pattern: '^.$'}\n")
    done = run(tmp_path, "config.yml", "--skip-workflow")
    assert done.returncode == 0, done.stderr
    assert output(tmp_path, "short")["average_score"] == 1.0
    assert output(tmp_path, "correct")["average_score"] == 0.5


def test_edited_answers_in_rows_are_scored_as_they_are_now(tmp_path):
    make(tmp_path, rows=2)
    assert recorded(tmp_path, ["0", "x"]).returncode == 0
    done = recorded(tmp_path, ["0", "1"])
    assert done.returncode == 0, done.stderr
    assert output(tmp_path, "correct")["average_score"] == 1.0


def test_a_plan_counts_what_would_be_taken_over_and_changes_nothing(tmp_path, server):
    make(tmp_path, rows=3)
    (tmp_path / "out").mkdir()
    row = {"id": "000", "question": "Repeat 0", "generated_answer": "0"}
    kept = json.dumps([row])
    (tmp_path / "out" / "workflow_output.json").write_text(kept, encoding="utf-8")
    plan = go(tmp_path, server, "--plan", "--skip-completed-entries")
    assert "1 kept, 2 new → 2 calls of workflow" in plan.stdout, plan.stderr
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["workflow_output.json"]
    assert aside(tmp_path) == []
    # Of a run that is there as well: both count.
    server.broken = {"Repeat 1", "Repeat 2"}
    assert go(tmp_path, server, "--skip-completed-entries").returncode == 1
    other = json.dumps(
        [
            {"id": "000", "question": "Repeat 0"},
            {"id": "001", "question": "Repeat 1", "generated_answer": "1"},
        ]
    )
    (tmp_path / "more.json").write_text(other, encoding="utf-8")
    plan = go(tmp_path, server, "--plan", "--skip-completed-entries", "--dataset", "more.json")
    assert "2 items × 1 trial: 2 kept" in plan.stdout, plan.stdout
    assert len(server.asked) == 2


def test_a_served_agent_is_called_as_the_flags_say(tmp_path, server, monkeypatch):
    monkeypatch.setenv("AGENT_TOKEN", "very-secret-token")
    make(tmp_path, rows=1)
    done = run(
        tmp_path, "config.yml", "--endpoint", server.url, "--endpoint-path", "/agents/one",
        "--input-key", "query", "--endpoint-header", "Authorization: Bearer ${AGENT_TOKEN}",
        "--endpoint_header", "X-User: me",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    [(path, headers, name)] = server.requests
    assert (path, name) == ("/agents/one", "query")
    assert headers["Authorization"] == "Bearer very-secret-token"
    assert headers["X-User"] == "me"
    written = [one.read_text(errors="replace") for one in (tmp_path / "out").rglob("*.*")]
    assert not any("very-secret-token" in text for text in written)
    told = json.loads((tmp_path / "out" / "config_metadata.json").read_bytes())
    assert told["endpoint_path"] == "/agents/one"
    assert told["endpoint_headers"] == ["Authorization", "X-User"]


@pytest.mark.quick(3)
@pytest.mark.parametrize(
    ("ends", "called"),
    [
        ("/", "/generate/full"),
        ("/generate", "/generate/full"),
        ("/generate/full", "/generate/full"),
        ("/v1/workflow", "/v1/workflow/full"),
        ("/v1/workflow/full/", "/v1/workflow/full"),
    ],
)
def test_an_address_may_end_with_what_is_called(tmp_path, server, ends, called):
    done = run(make(tmp_path, rows=1), "config.yml", "--endpoint", f"{server.url}{ends}")
    assert done.returncode == 0, done.stderr
    assert [path for path, _, _ in server.requests] == [called]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--endpoint-header", "no-colon"], "must be 'NAME: VALUE'"),
        (["--endpoint-header", "A: ${NOT_THERE}"], "${NOT_THERE} is not set in the environment"),
        (["--endpoint-path", "/x"], "--endpoint-path needs --endpoint"),
    ],
)
def test_wrong_flags_are_said_without_values(tmp_path, flags, said):
    done = run(make(tmp_path), "config.yml", *flags)
    assert done.returncode == 2
    assert said in done.stderr


def test_in_a_later_session_a_refused_item_is_its_own_failure(tmp_path, server):
    server.broken = {"Repeat 5"}
    assert go(make(tmp_path), server).returncode == 1
    server.refused = {"Repeat 5"}
    done = go(tmp_path, server)
    assert done.returncode == 1, done.stderr
    assert output(tmp_path)[5]["_limpet"]["error"]["class"] == "permanent"


def test_the_command_at_the_end_shows_no_secret(tmp_path, server):
    server.broken = {"Repeat 5"}
    done = go(make(tmp_path), server, "--endpoint-header", "Authorization: Bearer very-secret")
    assert "very-secret" not in done.stderr
    assert "'Authorization: …'" in done.stderr.splitlines()[-1]


def test_repetitions_of_existing_answers_are_refused_as_in_nat_eval(tmp_path, server):
    make(tmp_path, rows=2)
    done = run(tmp_path, "config.yml", "--skip_workflow", "--reps", "2")
    assert done.returncode == 2
    assert "--skip-workflow calls no workflow: leave out --reps" in done.stderr
    assert server.asked == []


def test_the_hint_of_a_path_that_a_server_lacks_names_the_flag(tmp_path, server):
    make(tmp_path, rows=1)
    assert "--endpoint-path PATH" in go(tmp_path, server, "--endpoint-path", "/nowhere").stderr
