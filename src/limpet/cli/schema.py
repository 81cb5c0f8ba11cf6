"""`limpet schema`: for editors."""

import json

import click

from limpet.cli.endings import DONE
from limpet.config import json_schema


@click.command("schema")
def command() -> int:
    """Print the JSON schema of eval.yml.

    In an editor with a YAML language server: limpet schema > eval.schema.json, and as the first
    line of eval.yml: # yaml-language-server: $schema=eval.schema.json
    """
    click.echo(json.dumps(json_schema(), indent=2))
    return DONE
