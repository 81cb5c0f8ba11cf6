"""`limpet docs` prints a page in the terminal, without the site and without a network."""

import re

import pytest
from e2e import ready_limpet
from e2e.project import COMMAND
from e2e.terminal import Terminal


def docs(*words):
    return ready_limpet.run(["docs", *words])


def test_without_a_topic_it_lists_the_pages_of_each_part():
    done = docs()
    assert done.returncode == 0
    lines = [line.split("  ")[0] for line in done.stdout.splitlines()]
    assert lines[0].startswith("tutorial/")
    assert {"tutorial/first-crash", "how-to/evaluate", "reference/errors"} <= {*lines}
    assert re.search(r"^reference/errors +Errors$", done.stdout, re.MULTILINE)


@pytest.mark.parametrize("topic", ["errors", "reference/errors", "reference/errors.md"])
def test_in_a_pipe_a_page_is_markdown_without_notes_to_writers(topic):
    done = docs(topic)
    assert done.returncode == 0
    assert done.stdout.startswith("# Errors\n")
    assert "| [`RateLimitError`](#ratelimiterror) |" in done.stdout
    assert "<!--" not in done.stdout
    assert "\x1b" not in done.stdout


def test_a_near_name_is_offered():
    done = docs("comands")
    assert done.returncode == 2
    assert (
        done.stderr == "error: comands: no page has this name\n\nhint: did you mean 'commands'?\n"
    )


def test_a_name_of_two_pages_asks_which():
    done = docs("evaluate")
    assert done.returncode == 2
    assert "limpet docs how-to/evaluate or limpet docs reference/evaluate" in done.stderr
    assert docs("how-to/evaluate").stdout.startswith("# Evaluate your own bot\n")


@pytest.mark.parametrize("topic", ["\x1b[31mred", "../../etc/passwd", "reference/../../x", ""])
def test_a_name_that_is_none_reads_nothing_and_moves_no_cursor(topic):
    done = docs(topic)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "\x1b" not in done.stderr


def test_in_a_terminal_a_page_is_laid_out(tmp_path):
    terminal = Terminal([*COMMAND, "docs", "reference/errors"], cwd=tmp_path, columns=80)
    try:
        assert terminal.wait() == 0
        screen = terminal.said
    finally:
        terminal.close()
    assert "What to do: " in screen
    assert "](" not in screen  # a link that nobody can follow is its text
    assert "# Errors" not in screen
