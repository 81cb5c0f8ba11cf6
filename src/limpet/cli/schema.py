"""`limpet schema`: print the JSON schema of eval.yml."""

import json

import click

from limpet.cli.error_exit import DONE
from limpet.config import json_schema


def command() -> int:
    """Print the JSON schema of eval.yml."""
    click.echo(json.dumps(json_schema(), indent=2))
    return DONE
