"""Which part of a crash report is shown."""

import subprocess
import sys

import pytest

from limpet.engines.process_line import crashed_thread

DIES = """
import ctypes, faulthandler, sys, threading

faulthandler.enable(sys.stderr.fileno())
resting = threading.Event()


def dies():
    ctypes.string_at(0)


for _ in range({others}):
    threading.Thread(target=resting.wait, daemon=True).start()
if {in_thread}:
    threading.Thread(target=dies, daemon=True).start()
    resting.wait()
dies()
"""


@pytest.mark.parametrize(
    ("others", "in_thread", "words"),
    [(5, False, "and 5 other threads"), (0, True, "and 1 other thread"), (0, False, "")],
)
def test_the_thread_that_crashed_is_shown_and_the_others_are_counted(others, in_thread, words):
    code = DIES.format(others=others, in_thread=in_thread)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    said = crashed_thread(ran.stderr).splitlines()
    assert said[0] == "Fatal Python error: Segmentation fault"
    assert "in string_at" in said[3]
    assert "in dies" in said[4]
    assert not any("in wait" in line for line in said)
    assert "other thread" not in said[-1] if not words else said[-1] == words


@pytest.mark.parametrize("report", ["", "Fatal Python error: Aborted\n\nThread 0x1 (most re"])
def test_a_report_that_names_no_thread_is_shown_as_it_is(report):
    assert crashed_thread(report) == report
