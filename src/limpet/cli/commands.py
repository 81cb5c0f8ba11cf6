"""Which commands exist, and which arguments and options do they take?

A command's module is imported only when the command runs, so that `--help` is fast. Its `command`
function takes the values and returns the exit code:

0 all cells are done, or `--stop-when` was reached; 1 finished with failures, below `--fail-under`,
or worse than the base; 2 bad usage or configuration, or not comparable; 3 stopped early, and can be
resumed; 4 inconclusive; 130 and 143 on a signal.
"""

from collections.abc import Callable
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

import click

from limpet.cli.error_exit import ReaderGoneError
from limpet.integrations.kinds import KINDS
from limpet.text import did_you_mean

# Commands that people try, and the ones that exist.
_INSTEAD = {
    "plan": "limpet run --plan",
    "redo": "limpet run --redo",
    "keep": "limpet run --keep",
    "resume": "limpet run",
    "diff": "limpet why",
}
_NEVER_MEANT = {"rm"}  # `limpet rum` means `run`: never suggest a command that deletes


class _Commands(click.Group):
    def list_commands(self, _ctx: click.Context) -> list[str]:
        return list(self.commands)  # as declared, not sorted

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands:
            meant = _INSTEAD.get(cmd_name)
            known = [name for name in self.commands if name not in _NEVER_MEANT]
            near = f"; did you mean: {meant}" if meant else did_you_mean(cmd_name, known)
            ctx.fail(f"unknown command {cmd_name!r}{near}")
        return self.commands[cmd_name]

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            raise ReaderGoneError from error


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="limpet")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Run evaluations of LLM workflows, and never lose a finished result.

    Start with: limpet init first && cd first && limpet run eval.yml
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


class _TakesFile(click.Command):
    """A command that takes a configuration: the help lists the flags of each kind separately."""

    def __init__(self, *args: Any, **how: Any) -> None:
        super().__init__(*args, **how)
        self._of_kinds = {kind.WHAT: list(kind.options(str(self.name))) for kind in KINDS}
        self.params += chain.from_iterable(self._of_kinds.values())
        files = " or ".join(["an eval.yml", *self._of_kinds])
        tools = " or by ".join([*(kind.TOOL for kind in KINDS), "Limpet"])
        self.help = str(self.help).format(files=files, tools=tools)
        # Other tools write --skip_workflow: both spellings work.
        self.context_settings["token_normalize_func"] = lambda name: name.replace("_", "-")

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        known = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
        of_kinds = list(chain.from_iterable(self._of_kinds.values()))
        sections = {"Options": [option for option in known if option not in of_kinds]}
        sections |= {f"Options for {what}": flags for what, flags in self._of_kinds.items()}
        for title, options in sections.items():
            rows = [option.get_help_record(ctx) for option in options]
            with formatter.section(title):
                formatter.write_dl([row for row in rows if row is not None])


def at_least(least: int) -> Callable[[Any], int]:
    """Return the type of an integer option. `click.IntRange` would add `[x>=1]` to the help."""

    def convert(value: Any) -> int:
        number = int(click.INT.convert(value, None, None))
        if number < least:
            raise click.BadParameter(f"{number} must be {least} or more")
        return number

    return convert


def _call(module: str, given: dict[str, Any], name: str = "command") -> int:
    code: int = getattr(import_module(f"limpet.cli.{module}"), name)(**given)
    return code


def _complete_run(_: click.Context, __: click.Parameter, text: str) -> list[str]:
    names: list[str] = import_module("limpet.run.reading.find_run").complete_run(text)
    return names


def _complete_topic(_: click.Context, __: click.Parameter, text: str) -> list[str]:
    topics: list[str] = import_module("limpet.cli.docs").topics()
    return [topic for topic in topics if topic.startswith(text)]


# An option fits on two lines.
# fmt: off
_RUN = click.argument("run", required=False, shell_complete=_complete_run)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON object to stdout.")
_SET = click.option("--set", "settings", multiple=True, metavar="PATH=VALUE",
                    help="Override a value in the file; may be repeated.")
_ENV_FILE = click.option("--env-file", type=click.Path(path_type=Path), metavar="FILE",
                         help="Set the variables in this file that are not set yet.")
_NO_EVALUATORS = click.option("--no-evaluators", is_flag=True,
                              help="Do not score: skip the file's evaluators.")
_COUNT = at_least(1)
_MARGINS = click.option("--fail-if-worse", "margins", multiple=True, metavar="NAME=MARGIN",
                        help="Exit with 1 if a score is worse by more than this; may be repeated.")
_INCONCLUSIVE = click.option("--inconclusive", type=click.Choice(["pass", "fail"]),
                             help="What to do if a gate is inconclusive.  [default: exit with 4]")
_PATH = click.Path(path_type=Path)
_PROVIDER = click.Choice(["anthropic", "bedrock", "gemini", "ollama", "openai"])
_OTHER_FORMS = [kind.FORM for kind in KINDS]


@cli.command("init")
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path), default=Path())
@click.option("--judge", is_flag=True,
              help="An example with a prompt, a model that answers and a model that judges.")
@click.option("--provider", type=_PROVIDER, help="With models of this provider, and your key.")
def _init(**given: Any) -> int:
    """Create a small working example.

    It is created in DIRECTORY (default: here). Without --provider, it needs no network and no key.
    """
    return _call("init", given)


@cli.command("run", cls=_TakesFile)
@click.argument("file", type=_PATH, default=Path("eval.yml"))
@click.option("--plan", "only_plan", is_flag=True, help="Show what would run, and stop.")
@click.option("--rehearse", type=_COUNT, metavar="N",
              help="Run and keep N rows drawn at random, and say what all would take.")
@click.option("--redo", is_flag=True, help="Run the workflow again for every item.")
@click.option("--redo-step", "redo_steps", multiple=True, metavar="NAME",
              help="Run this step again: workflow or an evaluator; may be repeated.")
@click.option("--redo-item", "redo_items", multiple=True, metavar="ID",
              help="Run this item again; may be repeated.")
@click.option("--keep", is_flag=True,
              help="Keep the existing answers of a changed workflow; cancel an unfinished redo.")
@click.option("--retry-failed/--no-retry-failed", default=True, show_default=True,
              help="Retry what failed in earlier sessions.")
@click.option("--fail-fast/--no-fail-fast", default=None,
              help="Stop if the first items all fail the same way.  [default: fail-fast]")
@click.option("--stop-when", "goals", multiple=True, metavar="NAME=VALUE",
              help="Stop when the 95% interval of a score is ± VALUE or less; may be repeated.")
@click.option("--budget", multiple=True, metavar="KIND=AMOUNT",
              help="Stop when all sessions have spent this: cost=20, tokens=5M, calls=5000, "
                   "time=2h; may be repeated.")
@click.option("--engine", metavar="ENGINE",
              help="Where your functions run: processes or ray. Overrides the file's engine.")
@click.option("--limit", type=_COUNT, metavar="N",
              help="Run only the first N rows in this session.")
@click.option("--trials", type=_COUNT, metavar="N", help="Run each item N times.")
@_NO_EVALUATORS
@_SET
@_ENV_FILE
@click.option("--only", multiple=True, metavar="NAME=VALUE",
              help="Run only these variants of the file's matrix; may be repeated.")
@click.option("--quiet", is_flag=True, help="Print only errors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per event to stdout.")
@click.option("--fail-under", "floors", multiple=True, metavar="NAME=VALUE",
              help="Exit with 1 if an evaluator's mean, counting failures as worst, is lower "
                   "(higher, if lower is better); may be repeated.")
@click.option("--against", metavar="BASE", shell_complete=_complete_run,
              help="Compare with this run at the end: see limpet compare.")
@_MARGINS
@_INCONCLUSIVE
@click.option("--config-file", type=_PATH, hidden=True)
def _run(**given: Any) -> int:
    """Run an evaluation, or resume it.

    FILE describes it: {files}. Finished results are kept, only missing ones run, and an edit reruns
    only what it affects. Ctrl-C stops after the calls in flight; press it again to stop at once.
    """
    return _call("run", given)


@cli.command("import", cls=_TakesFile)
@click.argument("file", type=_PATH)
@click.option("--into", type=_PATH, default=Path("eval.yml"), show_default=True, metavar="CONFIG",
              help="The file that describes the run.")
@click.option("--trials", "--reps", "trials", type=_COUNT, metavar="N",
              help="The run has N trials of each item.")
@_NO_EVALUATORS
@_SET
@_ENV_FILE
@_JSON
def _import(**given: Any) -> int:
    """Import answers from a workflow_output.json.

    FILE was written by {tools}. A row is imported if it holds an answer and the dataset has an item
    with the same id and input. Imported answers count as answers of the current workflow: limpet
    run continues from there.
    """
    return _call("importing", given)


@cli.command("status")
@_RUN
@click.option("--watch", is_flag=True, help="Refresh every second while it is running.")
@_JSON
def _status(**given: Any) -> int:
    """Show how far a run is.

    Only its files are read. Default RUN: the run in this directory, or else the latest in ./runs.
    """
    return _call("status", given)


@cli.command("show")
@_RUN
@click.option("--failed", is_flag=True, help="Show failures, grouped by cause.")
@click.option("--item", "id_", metavar="ID", help="Show everything about one item.")
@click.option("--evaluator", metavar="NAME",
              help="Show one evaluator's scores and reasons; NAME.PART for one of several scores.")
@click.option("--sort", metavar="NAME", help="Sort by a score, lowest first; -NAME: highest first.")
@click.option("--worst", type=_COUNT, metavar="N", help="Show the N items with the lowest score.")
@click.option("--below", "limits", multiple=True, metavar="[NAME=]X",
              help="Show only items that scored below X; may be repeated.")
@click.option("--label", metavar="LABEL", help="Show only items with this label.")
@click.option("--disagree", is_flag=True,
              help="Show only items on which a judge's votes disagree.")
@click.option("--where", multiple=True, metavar="FIELD=VALUE",
              help="Show only items whose dataset field has this value; may be repeated.")
@click.option("--grep", metavar="TEXT",
              help="Show only items with this text in the row, answer, errors, labels or reasons.")
@click.option("--by", "field", metavar="FIELD",
              help="Show the means for each value of a dataset field.")
@click.option("--limit", type=_COUNT, metavar="N",
              help="Show at most N items or groups. Default on a terminal: 20.")
@click.option("--json", "as_json", is_flag=True,
              help="Print one JSON object per item or group to stdout.")
def _show(**given: Any) -> int:
    """Show the items of a run, even while it is running.

    Default RUN: the run in this directory, or else the latest in ./runs.
    """
    return _call("show", given)


@cli.command("compare")
@click.argument("base", shell_complete=_complete_run)
@click.argument("new", nargs=-1, shell_complete=_complete_run)
@click.option("--evaluator", metavar="NAME",
              help="Compare only this score; NAME.PART for one of several scores.")
@click.option("--by", "field", metavar="FIELD",
              help="Also compare for each value of a dataset field.")
@click.option("--group", metavar="FIELD",
              help="Group items by this field, for example by document.")
@_MARGINS
@_INCONCLUSIVE
@click.option("--these-questions", is_flag=True,
              help="Draw conclusions about these very questions, not similar ones.")
@click.option("--allow", multiple=True, metavar="WHAT",
              help="Compare even if these differ: rows, evaluators, trials.")
@click.option("--flips", type=at_least(0), default=5, show_default=True, metavar="N",
              help="For each score, show the N items that changed most.")
@_JSON
@click.option("--markdown", type=_PATH, metavar="FILE", help="Write Markdown for a pull request.")
@click.option("--junit", type=_PATH, metavar="FILE", help="Write a test case for each gate.")
def _compare(**given: Any) -> int:
    """Compare runs with a base, item by item.

    Each NEW run is compared with BASE. BASE alone may be a matrix: its runs are compared with the
    first. Nothing runs. With --fail-if-worse, exits with 1 if NEW is worse, and with 4 if that is
    inconclusive.
    """
    return _call("compare", given)


@cli.command("why")
@_RUN
@click.option("--item", "id_", metavar="ID", help="Explain why this item runs again or is kept.")
@click.option("--all", "everything", is_flag=True, help="List everything each step depends on.")
@_JSON
def _why(**given: Any) -> int:
    """Explain what a run's steps depend on, and what changed.

    RUN is a run, or the file that describes it. If the run came from a file that still exists, the
    current code is imported and compared; nothing else runs, and nothing is written. If it came
    from a script, the records on disk are compared.

    Default RUN: the run in this directory, or else the latest in ./runs.
    """
    return _call("why", given)


@cli.command("list")
@click.argument("directory", type=_PATH, default=Path("runs"), metavar="[DIR]")
@click.option("--tag", metavar="NAME", help="List only runs with this tag.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per run to stdout.")
def _list(**given: Any) -> int:
    """List the runs in a directory, the most recent first.

    Default DIR: ./runs.
    """
    return _call("status", given, "list_runs")


@cli.command("view")
@click.argument("directory", type=_PATH, default=Path("runs"), metavar="[DIR]")
@click.option("--port", type=click.IntRange(0, 65535), help="The port.  [default: any free port]")
@click.option("--open", "open_browser", is_flag=True, help="Open it in the browser.")
@click.option("--allow-host", "allow_hosts", multiple=True, metavar="HOST[:PORT]",
              help="Also accept this host name, for a forwarded port; may be repeated.")
@click.option("--person", default="", metavar="NAME", help="Your name, if several people label.")
@click.option("--read-only", is_flag=True, help="Accept no labels or orders, and show all scores.")
def _view(**given: Any) -> int:
    """Look at runs in the browser, while they run and after, and label answers.

    It shows the runs in DIR (default: ./runs), or one run, on this machine only, and prints the
    address with its token. It writes only labels.jsonl, and passes on your orders to
    a run that is running. Ctrl-C ends it.
    """
    return _call("view", given)


@cli.command("report")
@_RUN
@click.option("--against", metavar="BASE", shell_complete=_complete_run,
              help="Compare it with this run.")
@click.option("-o", "--output", type=_PATH, metavar="FILE",
              help="The .html file to write.  [default: report.html]")
@click.option("--markdown", type=_PATH, metavar="FILE", help="Write Markdown for a pull request.")
@click.option("--max-size", type=_COUNT, default=20, show_default=True, metavar="MB",
              help="Leave out texts to stay below this size.")
def _report(**given: Any) -> int:
    """Write a run as one HTML file, to mail or to keep.

    It opens from disk in any browser, without a network: scores, charts, failures, and every item
    with its texts. If not all texts fit, those of failures, changes and the lowest scores come
    first, and the file says what is left out. With --markdown alone, only that is written.

    Default RUN: the run in this directory, or else the latest in ./runs.
    """
    return _call("view", given, "report")


@cli.command("export")
@_RUN
@click.option("--to", "form", help="The format.  [default: from the name of --output]",
              type=click.Choice(["csv", "jsonl", "parquet", "xlsx", "md", *_OTHER_FORMS]))
@click.option("--output", type=_PATH, metavar="PATH",
              help=f"The file to write, or the directory for {', '.join(_OTHER_FORMS)}.  "
                   "[default: stdout]")
@click.option("--by-item", is_flag=True, help="One row per item, with means over its trials.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
def _export(**given: Any) -> int:
    """Export the results of a run as a table.

    It has one row per item and trial. Default RUN: the run in this directory, or else the latest in
    ./runs.
    """
    return _call("export", given)


@cli.command("sample")
@_RUN
@click.option("--n", "n", type=_COUNT, default=200, show_default=True, metavar="N",
              help="How many answers to draw.")
@click.option("-o", "--output", type=_PATH, required=True, metavar="FILE",
              help="The .csv or .xlsx file to write.")
@click.option("--seed", type=at_least(0), metavar="N",
              help="The seed, to repeat a draw.  [default: random]")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def _sample(**given: Any) -> int:
    """Draw answers at random for people to label.

    FILE has an empty column label, and does not show the judge's verdict. The run remembers the
    draw, so that limpet calibrate can correct a judge's mean by the labels.

    Default RUN: the run in this
    directory, or else the latest in ./runs.
    """
    return _call("calibrate", given, "sample")


@cli.command("calibrate")
@click.argument("run", shell_complete=_complete_run)
@click.argument("evaluator")
@click.option("--labels", multiple=True, metavar="FILE",
              help="People's labels; may be repeated.  [default: labels.jsonl of the run]")
@click.option("--label-column", metavar="NAME",
              help="The column with the labels.  [default: label]")
@_JSON
def _calibrate(**given: Any) -> int:
    """Compare a judge with people's labels.

    Shows how often they agree, Cohen's kappa, where they disagree and, for answers that limpet
    sample drew, the judge's mean corrected by the labels. A label is one of the judge's labels or
    a number in the score's range. EVALUATOR is NAME.PART for one of several scores. The labels are
    kept in the run until the evaluator changes, and its summary shows the corrected mean.
    """
    return _call("calibrate", given)


@cli.command("verify")
@_RUN
@_JSON
def _verify(**given: Any) -> int:
    """Check the files of a run, without changing them.

    Every line is read. Exits with 1 if something is wrong. Default RUN: the run in this directory,
    or else the latest in ./runs.
    """
    return _call("verify", given)


@cli.command("repair")
@click.argument("run", shell_complete=_complete_run)
@_JSON
def _repair(**given: Any) -> int:
    """Repair the files of a run, keeping a backup.

    A torn last line is removed, a missing line end is restored, and the indexes are rebuilt. Bad
    lines of a column stay: they are ignored, and the next run redoes their cells. No valid record
    is changed. A copy of each changed file is kept in the run's torn/ directory.
    """
    return _call("verify", given, "repair_run")


@cli.command("tag")
@click.argument("name", required=False)
@_RUN
@click.option("--remove", is_flag=True, help="Remove the tag.")
def _tag(**given: Any) -> int:
    """Tag a run, to find it with limpet list --tag.

    Default RUN: the run in this directory, or else the latest in ./runs. Without NAME, list the
    tags of the runs in ./runs.
    """
    return _call("rm", given, "tag")


@cli.command("rm")
@click.argument("run", shell_complete=_complete_run)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def _rm(**given: Any) -> int:
    """Remove a run, or a matrix with all its runs.

    It asks first, and refuses a run that is running. Files that Limpet did not make are kept.
    """
    return _call("rm", given)


@cli.command("ctl")
@click.argument("run", shell_complete=_complete_run)
@click.argument("words", nargs=-1, required=True, metavar="ORDER [ARG]...")
@click.option("--endpoint", default="", metavar="NAME",
              help="Whose pace changes, where there are several endpoints.")
@_JSON
def _ctl(**given: Any) -> int:
    """Give an order to a run that is running, from another terminal.

    \b
    pause           start no more calls; those in flight end
    resume          go on
    stop            stop in good order; returns when everything is on disk
    pace 20         keep 20 calls in flight; pace auto finds the limit
    retry ID...     try these items again at once: in flight, or failed
    skip ID...      leave these items unrun in this session
    budget cost=40  change the budget

    It returns when the order is done. Exits with 2 if nothing was changed.
    """  # noqa: D301 - click keeps the lines of a paragraph after \b
    return _call("ctl", given)


@cli.command("pace")
@click.argument("words", nargs=-1, metavar="[forget] [URL]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per endpoint.")
def _pace(**given: Any) -> int:
    """List what runs learned about endpoints, or forget it; with a URL, of what begins with it.

    Runs with `pace: auto` start from it for a day. It has addresses, models and limits, no keys and
    nothing of any call.
    """
    return _call("pace", given)


@cli.command("models")
@click.argument("file", type=_PATH, default=Path("eval.yml"))
@click.option("--check", is_flag=True,
              help="Ask each model for one token; exit with 1 if one fails.")
@_SET
@_ENV_FILE
@_JSON
def _models(**given: Any) -> int:
    """List the models that an eval.yml configures: where, with which key, and what uses them.

    Nothing is imported or asked without --check.
    """
    return _call("models", given)


@cli.command("schema")
def _schema(**given: Any) -> int:
    """Print the JSON schema of eval.yml, for editors.

    With a YAML language server, write it to a file:

    \b
        limpet schema > eval.schema.json

    and make this the first line of eval.yml:

    \b
        # yaml-language-server: $schema=eval.schema.json
    """  # noqa: D301 - click keeps the lines of a paragraph after \b
    return _call("init", given, "schema")


@cli.command("docs")
@click.argument("topic", required=False, shell_complete=_complete_topic)
def _docs(**given: Any) -> int:
    """Print a page of the documentation, or list the pages.

    TOPIC is a page's name, like commands. In a pipe, the page is Markdown.
    """
    return _call("docs", given)


@cli.command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def _completion(shell: str) -> int:
    """Print the script that completes commands, options and runs in your shell.

    Its last lines say how to install it.
    """
    made = import_module("click.shell_completion").get_completion_class(shell)
    click.echo(made(cli, {}, "limpet", "_LIMPET_COMPLETE").source())
    file = "~/.config/fish/completions/limpet.fish" if shell == "fish" else f"~/.limpet.{shell}"
    begin = "" if shell == "fish" else f" && echo '. {file}' >> ~/.{shell}rc"
    click.echo("# To install it, run this and open a new shell:")
    click.echo(f"#     limpet completion {shell} > {file}{begin}")
    return 0
