"""The flags of `nat eval` that our commands accept."""

from dataclasses import fields

import pytest

from limpet.cli.commands import cli
from limpet.cli.made_by import _IN_EVAL_YML
from limpet.cli.nat_flags import _NatFlag
from limpet.integrations.nat import Flags


def flags_of(command):
    options = cli.commands[command].params
    return {option.name for option in options if isinstance(option, _NatFlag)}


@pytest.mark.parametrize("command", ["run", "import"])
def test_each_flag_is_a_field_of_flags(command):
    assert flags_of(command) <= {field.name for field in fields(Flags)}


def test_each_flag_has_something_that_replaces_it_in_an_eval_yml():
    assert flags_of("run") == set(_IN_EVAL_YML)
    for command in ("run", "import"):
        for option in cli.commands[command].params:
            if isinstance(option, _NatFlag):
                assert _IN_EVAL_YML[option.name][0] in option.opts
