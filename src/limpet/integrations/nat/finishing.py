"""What happens once the results are on disk?

Readers of the toolkit's files expect three files about the configuration; they are written without
secrets. Then the user's scripts run, as in the toolkit: `python script --output_dir DIR --key value
…`, in the current directory. Their output goes to stderr: stdout is ours.
"""

import asyncio
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from limpet.config.environment import substitute, typed
from limpet.errors import DatasetError, LimpetError
from limpet.integrations.nat.eval_block import DatasetBlock, OutputBlock, ScriptBlock
from limpet.integrations.nat.evaluators import as_toolkit_reads
from limpet.integrations.nat.flags import Flags
from limpet.integrations.nat.toolkit import Toolkit, is_installed, toolkit_steps
from limpet.journal.files import make_directory, replace_file
from limpet.journal.layout import Layout
from limpet.journal.lines import timestamp
from limpet.run.reading import RunReader
from limpet.run.results.item_result import ItemResult
from limpet.run.results.output_files import AnswerRows, write_outputs
from limpet.secrets.in_configs import masked, masked_text, shown_value, words_of
from limpet.text import one_line, text_of

# ---- What is read and written by the toolkit's own code, if it is installed? --------------------
#
# Datasets are downloaded, and at the end of a run a profile and traces in the ATIF format are
# written, and the directory is uploaded to S3. `config_effective.yml` gets the toolkit's defaults.

_ATIF = "workflow_output_atif.json"


def download(block: DatasetBlock) -> None:
    """Download the dataset to its `file_path`, from S3 or a signed URL.

    Raises:
        DatasetError: It cannot be downloaded.
    """
    try:
        downloads = import_module("nat.plugins.eval.dataset_handler.dataset_downloader")
        bucket = None if block.s3 is None else _s3(block.s3)
        source = SimpleNamespace(
            remote_file_path=str(block.remote_file_path), file_path=str(block.file_path), s3=bucket
        )
        with _unsaid(downloads.logger):
            downloads.DatasetDownloader(source).download_dataset()
    except Exception as error:
        address, _, signature = str(block.remote_file_path).partition("?")
        said = text_of(error).replace(f"?{signature}", "") if signature else text_of(error)
        raise DatasetError(
            f"{one_line(address)}: cannot be downloaded: {type(error).__name__}: {one_line(said)}",
            hint="or download it yourself, and give it with --dataset FILE",
        ) from error


@contextmanager
def _unsaid(logger: logging.Logger) -> Iterator[None]:
    """Silence the toolkit: it would log the signature of a URL, and we report failures."""
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def _s3(block: Any) -> Any:
    config = import_module("nat.data_models.dataset_handler").EvalS3Config
    return config.model_validate(as_toolkit_reads(block))


# ---- after a run ------------------------------------------------------------------------------


def write_toolkit_files(
    run: Path,
    profiler: Any,
    output: OutputBlock,
    items: Callable[[], Iterable[ItemResult]],
    say: Callable[[str], None],
) -> bool:
    """Write the files that the configuration requests from the toolkit.

    Args:
        run: The run's directory.
        profiler: The profiler's block; None: no profile.
        output: The block of the output.
        items: Returns the results. They are read only if needed.
        say: Called with a line for each failure.

    Returns:
        Whether all of it succeeded.
    """
    if not is_installed():
        return True  # reported when the file was read
    wanted: dict[str, Callable[[], None]] = {}
    if profiler is not None:  # an empty block asks for the default
        wanted["profiler"] = lambda: _profile(run, profiler, items())
    if output.write_atif_workflow_output:
        wanted[_ATIF] = lambda: _write_atif(run, items())
    done = [_done(name, write, say) for name, write in wanted.items()]  # all of them
    return all(done)


def upload(run: Path, output: OutputBlock, say: Callable[[str], None]) -> bool:
    """Upload the run's directory to S3, if configured.

    Returns:
        Whether it succeeded, or was not configured.
    """
    if not output.s3 or not is_installed():
        return True

    def send() -> None:
        uploads = import_module("nat.plugins.eval.utils.output_uploader")
        remote = None if output.remote_dir is None else str(output.remote_dir)
        target = SimpleNamespace(dir=run, s3=_s3(output.s3), remote_dir=remote)
        _run(uploads.OutputUploader(target).upload_directory())

    return _done("upload to S3", send, say)


def _done(name: str, write: Callable[[], None], say: Callable[[str], None]) -> bool:
    try:
        write()
    except Exception as error:  # noqa: BLE001 - the results are on disk: the run must not fail
        said = f"{type(error).__name__}: {one_line(text_of(error))}"
        say(f"{name}: failed: {said}; the results are on disk")
        return False
    return True


def _run(work: Coroutine[Any, Any, Any]) -> None:
    """Wait for a coroutine in a separate thread: this one may have an event loop."""
    with ThreadPoolExecutor(1) as thread:
        thread.submit(asyncio.run, work).result()


def _profile(run: Path, block: Any, items: Iterable[ItemResult]) -> None:
    profiler = import_module("nat.data_models.profiler").ProfilerConfig
    config = profiler.model_validate(as_toolkit_reads(block))
    runner = import_module("nat.plugins.profiler.profile_runner").ProfilerRunner(config, run)
    answered = ((item.output, item.id) for item in items)
    _run(runner.run([toolkit_steps(output.trace, id_) for output, id_ in answered if output]))


def _write_atif(run: Path, items: Iterable[ItemResult]) -> None:
    models = import_module("nat.data_models.evaluator")
    adapter = import_module("nat.plugins.eval.runtime.atif_adapter").EvalAtifAdapter()
    found = [
        models.EvalInputItem(
            id=item.id if item.trial == 0 else f"{item.id}_rep{item.trial}",
            input_obj=item.input,
            expected_output_obj=item.expected,
            output_obj=item.output.value,
            trajectory=toolkit_steps(item.output.trace, item.id),
            full_dataset_entry=dict(item.row),
        )
        for item in items
        if item.output is not None
    ]
    samples = adapter.build_samples(models.EvalInput(eval_input_items=found))
    content = json.dumps([sample.model_dump(mode="json") for sample in samples], indent=2)
    replace_file(run / _ATIF, [content.encode()])


# ---- the effective configuration ----------------------------------------------------------------


def with_defaults(data: Mapping[str, Any], toolkit: Toolkit, say: Callable[[str], None]) -> Any:
    """Return a configuration with the toolkit's defaults for missing keys.

    Its own values stay as written: the toolkit would substitute the environment. For a served
    workflow, the toolkit here may lack the plug-ins: then there are no defaults, and `say` is
    called with the reason.
    """
    if not is_installed():
        return data
    try:
        config = dict(toolkit.with_defaults())
        general = import_module("nat.data_models.evaluate_config").EvalGeneralConfig
        written = {**((data.get("eval") or {}).get("general") or {}), "dataset": None}
        known = general.model_validate(as_toolkit_reads(substitute(written, lambda *_: None)))
    except (LimpetError, ImportError, ValueError) as error:
        say(f"config_effective.yml: without the toolkit's defaults: {one_line(text_of(error))}")
        return data
    config["eval"] = {**(config.get("eval") or {}), "general": known.model_dump(mode="json")}
    return _filled(data, config)


def _filled(written: Any, known: Any) -> Any:
    if not isinstance(written, Mapping) or not isinstance(known, Mapping):
        return written
    names = [*written, *(name for name in known if name not in written)]
    return {
        name: _filled(written[name], known.get(name)) if name in written else known[name]
        for name in names
    }


# ---- What happens once the results are on disk? -------------------------------------------------


def write_config_files(
    run: Path, config: Path, original: str, data: Any, effective: Any, flags: Flags
) -> None:
    """Write `config_original.yml`, `config_effective.yml` and `config_metadata.json`.

    Args:
        run: The run's directory.
        config: The configuration file.
        original: Its text when it was read.
        data: Its content, with the command line applied.
        effective: The same, with the toolkit's defaults.
        flags: The flags of the command line.
    """
    replace_file(run / "config_original.yml", [masked_text(original, data).encode()])
    before = words_of(original)  # an overridden secret may still be behind an alias
    text = yaml.safe_dump(masked(effective, data, before), sort_keys=False, allow_unicode=True)
    replace_file(run / "config_effective.yml", [text.encode()])
    metadata = {
        "config_file": str(config),
        "overrides": [
            {"path": path, "value": shown_value(path, value)} for path, value in flags.overrides
        ],
        "dataset": None if flags.dataset is None else str(flags.dataset),
        "result_json_path": flags.result_json_path,
        "skip_workflow": flags.skip_workflow,
        "skip_completed_entries": flags.skip_completed,
        "reps": flags.reps or 1,
        "endpoint": flags.endpoint,
        "endpoint_timeout": flags.endpoint_timeout_s,
        "endpoint_path": flags.endpoint_path,
        "input_key": flags.input_key,
        "user_id": flags.user_id or "nat_eval_user_id",
        "endpoint_headers": None,  # set below: the names of headers are not secret
        "timestamp": timestamp(),
    }
    metadata = masked(metadata, data, before)
    metadata["endpoint_headers"] = [name for name, _ in flags.headers]
    content = json.dumps(metadata, indent=2).encode() + b"\n"
    replace_file(run / "config_metadata.json", [content])


# ---- scripts ----------------------------------------------------------------------------------


def run_scripts(
    scripts: Mapping[str, ScriptBlock], directory: Path, say: Callable[[str], None]
) -> bool:
    """Run all scripts in the order of the file, even if one fails.

    Args:
        scripts: The scripts, by name.
        directory: The run's directory.
        say: Called with a line for each script that starts or fails.

    Returns:
        Whether all of them succeeded.
    """
    codes = [_run_script(name, script, directory, say) for name, script in scripts.items()]
    return all(code == 0 for code in codes)


def _run_script(
    name: str, script: ScriptBlock, directory: Path, say: Callable[[str], None]
) -> int | None:
    """Run a script and return its exit code; None if it cannot be started."""
    arguments = [sys.executable, str(script.script), "--output_dir", str(directory)]
    for key, value in script.kwargs.items():
        arguments += [f"--{key}", "" if typed(value) is None else str(value)]
    shown = f"custom_scripts: {one_line(name)}"
    say(f"{shown} …")
    try:
        code = subprocess.run(arguments, check=False, stdout=sys.stderr).returncode  # noqa: S603 - the user's own
    except OSError as error:
        say(f"{shown}: cannot be run: {error.strerror}")
        return None
    if code:
        say(f"{shown}: ended with exit code {code}; the results are on disk")
    return code


# ---- `limpet export --to nat` -------------------------------------------------------------------


def exported(reader: RunReader) -> list[str]:
    """Return the names of the files that `export` writes."""
    return [f"{step}_output.json" for step in ("workflow", *reader.evaluators)] + ["summary.json"]


def export(reader: RunReader, directory: Path) -> None:
    """Write `workflow_output.json`, `<evaluator>_output.json` and `summary.json`."""
    make_directory(directory)
    rows = AnswerRows(reader.run_file.names, reader.trials, as_toolkit=True)
    write_outputs(Layout(directory), reader.items(), reader.evaluators, rows, reader.summary())
