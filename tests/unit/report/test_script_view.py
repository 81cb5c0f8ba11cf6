"""What a script logs about its run, and how a notebook shows a plan."""

import io
import subprocess
import sys

import limpet
from limpet.report.terminal import stderr_console
from limpet.run.planning.plan import Plan, StepPlan
from limpet.run.watcher import Tally
from limpet.view.scripts import LogLines

PLAN = Plan(3, 1, StepPlan("workflow", 1, 2, calls=2), (StepPlan("<b>bold</b>", 0, 3, calls=3),))


def test_a_log_gets_its_first_line_soon_and_then_one_each_half_minute(monkeypatch):
    waits = []

    class Over:
        def wait(self, seconds):
            waits.append(seconds)
            return len(waits) > 3

        def set(self):
            pass

    text = io.StringIO()
    monkeypatch.setattr(sys, "stderr", text)
    stderr_console.cache_clear()
    view = LogLines()
    view._over = Over()
    view._say()
    stderr_console.cache_clear()
    assert waits[0] < 5
    assert waits[1:] == [30, 30, 30]
    assert text.getvalue().splitlines() == ["preparing the run"] * 3


def test_a_watcher_replaces_the_view(capsys):
    watcher = Tally()
    limpet.evaluate([{"id": "1", "input": "a"}], lambda x: x, save=False, watcher=watcher)
    assert watcher.plan.items == 1
    assert capsys.readouterr().err == ""


def test_a_plan_in_a_notebook_is_a_table_and_escaped():
    html = PLAN._repr_html_()
    assert "<table>" in html
    assert "<td>workflow</td><td>1</td><td></td><td>2</td><td>2</td>" in html
    assert "&lt;b&gt;bold&lt;/b&gt;" in html
    assert "<b>" not in html


def test_a_short_run_in_a_pipe_does_not_import_what_draws(tmp_path):
    code = (
        "import sys, limpet; limpet.evaluate([{'question': 'a'}], lambda question: 1, save=False);"
        "print('rich' in sys.modules)"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("False\n", "")
