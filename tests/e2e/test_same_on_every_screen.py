"""Every screen says the same of a run: `run`, `status`, `list`, `show`, `view` and `report`."""

import html
import json
import re

from e2e.project import make, run


def markdown(folder):
    """Return the report of a run for a pull request, as its reader sees it."""
    return html.unescape(run(folder, "--markdown", "-", command="report").stdout).replace("\\", "")


def test_with_failures_the_mean_stays_in_its_place_and_the_range_is_beside_it(tmp_path):
    make(tmp_path, workflow="app:fail_some", more="retry: {max_retries: 0}\n")
    ran = run(tmp_path)  # q3 and q13 fail
    assert ran.returncode == 1
    said = "1.000 (0.70–1.00)"
    assert re.search(rf"^correct +18/18 +{re.escape(said)} +of 18 completed$", ran.stdout, re.M)
    assert f"correct {said}" in run(tmp_path, command="list").stdout
    for command in ("status", "show"):
        assert f"correct {said} of 18 completed" in run(tmp_path, command=command).stdout
    assert f"{said} | of 18 completed" in markdown(tmp_path)


# ---- after an edit that breaks the workflow -----------------------------------------------------

WORKS, BROKEN = "    await asyncio.sleep(0.01)", "    await asyncio.slep(0.01)"


def edit(folder, old, new):
    app = (folder / "app.py").read_text(encoding="utf-8")
    assert old in app
    (folder / "app.py").write_text(app.replace(old, new), encoding="utf-8")


def test_answers_that_an_edit_set_aside_are_said_everywhere_with_the_way_back(tmp_path):
    make(tmp_path, rows=6)
    assert run(tmp_path).returncode == 0
    edit(tmp_path, WORKS, BROKEN)
    broken = run(tmp_path)  # so few are made again without asking
    said = "6 answers from an earlier version are on disk and do not count: undo the edit, or keep "
    assert said in broken.stderr
    assert re.search(r"^workflow +0/6", broken.stdout, re.M)
    status = run(tmp_path, command="status").stdout
    assert re.search(r"^workflow +0/6", status, re.M)
    assert said in status
    assert said in run(tmp_path, command="show").stderr
    assert "correct – (6 from an earlier version on disk)" in run(tmp_path, command="list").stdout
    assert said in markdown(tmp_path)
    kept = run(tmp_path, "--keep")  # as it said
    assert re.search(r"^workflow +6/6", kept.stdout, re.M)
    edit(tmp_path, BROKEN, WORKS)
    assert re.search(r"^correct +6/6 +1.000", run(tmp_path).stdout, re.M)
    assert "earlier" not in run(tmp_path, command="status").stdout


def test_why_a_run_stopped_is_said_by_status_and_by_its_report(tmp_path):
    make(tmp_path, rows=30)
    edit(tmp_path, WORKS, BROKEN)
    assert run(tmp_path).returncode == 3
    [said] = re.findall(r"^stopped: .*$", run(tmp_path, command="status").stdout, re.M)
    assert f"- {said[:60]}" in markdown(tmp_path)


def test_a_redo_that_fails_has_the_same_numbers_on_every_screen(tmp_path):
    make(tmp_path, rows=6)
    assert run(tmp_path).returncode == 0
    edit(tmp_path, WORKS, BROKEN)
    broken = run(tmp_path, "--redo", "--no-fail-fast").stdout
    status = run(tmp_path, command="status").stdout
    for said in (broken, status):
        assert re.search(r"^workflow +0/6 +6\b", said, re.M)
        assert re.search(r"^correct +6/6", said, re.M)
        assert "1.000 (0.61–1.00)" in said
    assert re.search(r"0/6 +6 +correct 1.000", run(tmp_path, command="list").stdout)
    for said in (status, run(tmp_path, command="show").stderr, markdown(tmp_path)):
        assert "to run again: workflow; until then the earlier results are kept" in said
        assert "cancel it with --keep" in said


# ---- skipped rows, and which run ----------------------------------------------------------------


def test_skipped_rows_are_counted_in_the_plan_and_the_first_three_named_everywhere(tmp_path):
    make(tmp_path, rows=2)
    setting = ["--set", "dataset.on_bad_row=skip"]
    with (tmp_path / "rows.jsonl").open("a", encoding="utf-8") as rows:
        rows.write("not JSON\n" * 5)
    assert "2 items (5 rows skipped) × 1 trial: " in run(tmp_path, "--plan", *setting).stdout
    ran = run(tmp_path, *setting)
    assert "2 items (5 rows skipped) × 1 trial: " in ran.stderr
    named = r"5 rows skipped: .*line 3\b.*line 4\b.*line 5\b.* and 2 more"
    for said in (ran.stderr, run(tmp_path, *setting).stderr, run(tmp_path, command="show").stderr):
        assert re.search(named, said)
        assert not re.search(r"line 6\b", said)
    for said in (run(tmp_path, command="status").stdout, markdown(tmp_path)):
        assert re.search(named, said)


def test_show_without_a_name_says_which_run_it_shows(tmp_path):
    make(tmp_path, rows=2)
    assert run(tmp_path).returncode == 0
    assert "run: runs/trial\n" in run(tmp_path, command="show").stderr
    assert "run: " not in run(tmp_path, "trial", command="show").stderr


def test_machines_are_told_of_skipped_rows_too(tmp_path):
    make(tmp_path, rows=2, more="")
    rows = tmp_path / "rows.jsonl"
    rows.write_text(rows.read_text() + '{"id": "bad"}\n', encoding="utf-8")
    run(tmp_path, "--set", "dataset.on_bad_row=skip")
    (said,) = json.loads(run(tmp_path, "--json", command="status").stdout)["remarks"]
    assert said.startswith("1 row skipped: ")
