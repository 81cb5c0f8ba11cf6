"""Which executor the factory picks where. (On a patched loop: see test_run.)"""

import asyncio
import threading

from limpet import AsyncExecutor, SyncExecutor, get_executor_on_sync_context


def plain(x):
    return x


async def awaited(x):
    return x


def in_thread(work):
    result = []
    thread = threading.Thread(target=lambda: result.append(work()))
    thread.start()
    thread.join()
    return result[0]


def test_no_loop_gives_async_with_every_option_passed_on(caplog):
    executor = get_executor_on_sync_context(
        plain,
        awaited,
        concurrency=7,
        tqdm_bar_format="{bar}",
        max_retries=2,
        exit_on_error=False,
        fallback_return_value="-",
        timeout=5,
    )
    assert isinstance(executor, AsyncExecutor)
    assert executor.generation_fn is awaited
    assert (executor.concurrency, executor.tqdm_bar_format, executor.max_retries) == (7, "{bar}", 2)
    assert (executor.exit_on_error, executor.fallback_return_value) == (False, "-")
    assert executor.timeout == 5
    assert caplog.text == ""


def test_run_sync_gives_sync_with_every_option_passed_on(caplog):
    executor = get_executor_on_sync_context(
        plain,
        awaited,
        run_sync=True,
        tqdm_bar_format="{bar}",
        max_retries=2,
        exit_on_error=False,
        fallback_return_value="-",
    )
    assert isinstance(executor, SyncExecutor)
    assert executor.generation_fn is plain
    assert (executor.tqdm_bar_format, executor.max_retries) == ("{bar}", 2)
    assert (executor.exit_on_error, executor.fallback_return_value) == (False, "-")
    assert caplog.text == ""


def test_off_the_main_thread_gives_sync_and_a_warning_if_async_was_wanted(caplog):
    executor = in_thread(lambda: get_executor_on_sync_context(plain, awaited))
    assert isinstance(executor, SyncExecutor)
    assert executor.termination_signal is None
    assert "not on the main thread" in caplog.text


def test_off_the_main_thread_with_run_sync_there_is_nothing_to_warn_of(caplog):
    executor = in_thread(lambda: get_executor_on_sync_context(plain, awaited, run_sync=True))
    assert isinstance(executor, SyncExecutor)
    assert executor.termination_signal is None
    assert caplog.text == ""


def test_a_running_loop_that_is_not_patched_gives_sync_and_says_what_to_do(caplog):
    async def notebook():
        return get_executor_on_sync_context(plain, awaited)

    assert isinstance(asyncio.run(notebook()), SyncExecutor)
    assert "nest_asyncio.apply()" in caplog.text
