"""The flags of `nat eval` that our commands accept."""

from dataclasses import fields

import pytest

from limpet.cli.commands import cli
from limpet.integrations import nat


@pytest.mark.parametrize("command", ["run", "import"])
def test_each_flag_is_taken_by_its_command_and_is_a_field_of_flags(command):
    flags = nat.options(command)
    assert len(flags) > 6
    assert {flag.name for flag in flags} <= {field.name for field in fields(nat.Flags)}
    assert [option for option in cli.commands[command].params if option in flags] == flags


def test_the_flags_that_results_depend_on_are_recorded():
    assert {*nat.RECORDED} < {flag.name for flag in nat.options("run")}
    assert "headers" not in nat.RECORDED  # they may hold secrets
