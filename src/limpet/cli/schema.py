"""`limpet schema`: print the JSON schema of eval.yml."""

import json

import click

from limpet.cli.endings import DONE
from limpet.config import json_schema


@click.command("schema")
def command() -> int:
    """Print the JSON schema of eval.yml.

    For an editor with a YAML language server, run limpet schema > eval.schema.json and make this
    the first line of eval.yml: # yaml-language-server: $schema=eval.schema.json
    """
    click.echo(json.dumps(json_schema(), indent=2))
    return DONE
