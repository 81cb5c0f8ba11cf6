"""Processes that call one endpoint share its limit: each case runs several pacers in virtual time,
each with its own handle on the files, as processes would have.
"""

import asyncio
import fcntl
import gc
import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from virtual_time import in_virtual_time, run

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
import providers

from limpet.pacing import Pacer
from limpet.pacing.observation import observing
from limpet.pacing.registry import PacerRegistry
from limpet.pacing.sharing import MOST_BYTES, CallLog, shared_log
from limpet.pacing.signals import classify

SECONDS = 150.0


class Handle(CallLog):
    """A process's handle on the log. What a dead process would write is not written."""

    dead = False
    lost = 0

    def append(self, line):
        if self.lost and '"ok"' in line:
            self.lost -= 1
        elif not self.dead:
            super().append(line)


class Process:
    """Calls a provider as fast as its pacer lets it, or every so many seconds."""

    def __init__(self, provider, path, every_s=0.0, boot="a boot", **options):
        self.provider = provider
        self.handle = None if path is None else Handle(path, boot)
        self.pacer = Pacer(log=None if path is None else lambda: self.handle, **options)
        self.accepted = self.refused = 0
        self.at = asyncio.get_running_loop().time()
        self.until = SECONDS
        self._every_s = every_s
        self._calls = set()
        self._task = asyncio.create_task(self._run())

    async def _run(self):
        for item in itertools.cycle(self.provider.items):
            await asyncio.sleep(self._every_s)
            ticket = await self.pacer.acquire()
            call = asyncio.create_task(self._call(ticket, item))
            self._calls.add(call)
            call.add_done_callback(self._calls.discard)

    async def _call(self, ticket, item):
        try:
            async with asyncio.timeout(self.provider.timeout_s):
                with observing(ticket.observation):
                    await self.provider.call(item)
        except TimeoutError:
            ticket.failed(timeout=True)
        except providers.HTTPStatusError as error:
            self.refused += 1
            ticket.settle(classify(error))
        else:
            self.accepted += 1
            ticket.ok()

    def kill(self):
        """End at once: nothing more is written, and its calls are never heard of again."""
        self.handle.dead = True
        self.until = asyncio.get_running_loop().time()
        for task in (self._task, *self._calls):
            task.cancel()

    def fair(self, processes, rate):
        """Return what would be fair: an equal part at each moment, of so many a second."""
        moments = sorted({0.0, SECONDS, *(p.at for p in processes), *(p.until for p in processes)})
        total = 0.0
        for first, last in itertools.pairwise(moments):
            if self.at <= first and last <= self.until:
                there = sum(p.at <= first and last <= p.until for p in processes)
                total += rate * (last - first) / there
        return total


async def alone(model):
    process = Process(model(), None)
    await asyncio.sleep(SECONDS)
    return process.accepted


async def together(model, count, path, seed, *, shared=True):
    """Start and kill processes at random. Returns them all: the first one lives from the start."""
    rng, provider = random.Random(seed), model()
    processes = [Process(provider, path if shared else None)]

    async def one_after_the_other():
        await asyncio.sleep(rng.uniform(0, 20))
        while True:
            process = Process(provider, path if shared else None)
            processes.append(process)
            await asyncio.sleep(rng.uniform(25, 100))
            if shared:
                process.kill()
                await asyncio.sleep(rng.uniform(0, 10))

    tasks = [asyncio.create_task(one_after_the_other()) for _ in range(count - 1)]
    await asyncio.sleep(SECONDS)
    assert len(tasks) == count - 1
    return processes


def measured(model, count, path, seed=0, **options):
    """Return how much of what one reaches, what share was refused, and the least of a fair part."""
    one = run(alone(model))
    processes = run(together(model, count, path, seed, **options))
    accepted = sum(process.accepted for process in processes)
    refused = sum(process.refused for process in processes)
    least = min(
        process.accepted / process.fair(processes, one / SECONDS)
        for process in processes
        if process.until - process.at > 20
    )
    return accepted / one, refused / (accepted + refused), least


@pytest.mark.quick(7)
@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize(
    "model",
    [
        providers.TokenBucket,
        providers.StrictBucket,
        providers.NamedWait,
        providers.InFlightCap,
        providers.QueueingServer,
        providers.Knee,
        providers.NamedLimits,
    ],
    ids=lambda model: model.__name__,
)
def test_together_they_reach_what_one_does_and_none_falls_behind(model, count, tmp_path):
    reached, refused, least = measured(model, count, tmp_path / "x.calls")
    assert reached >= 0.93
    assert refused < 0.01
    assert least >= 0.5


def test_without_sharing_they_would_not(tmp_path):
    _, refused, least = measured(providers.TokenBucket, 4, tmp_path / "x.calls", shared=False)
    assert refused > 0.01 or least < 0.5


# ---- who gets how much --------------------------------------------------------------------------


@in_virtual_time
async def test_what_one_does_not_need_the_others_have(tmp_path):
    provider, path = providers.TokenBucket(), tmp_path / "x.calls"
    modest, first, second = (
        Process(provider, path, every_s=1.0), Process(provider, path), Process(provider, path),
    )  # fmt: skip
    await asyncio.sleep(SECONDS)
    assert modest.accepted > 0.9 * SECONDS  # its call a second
    assert first.accepted == pytest.approx(second.accepted, rel=0.1)
    assert first.accepted + second.accepted > 0.95 * 19 * SECONDS


@in_virtual_time
async def test_a_number_is_kept_and_what_it_uses_counts_as_used(tmp_path):
    provider, path = providers.InFlightCap(), tmp_path / "x.calls"
    fixed = Process(provider, path, fixed=True, max_in_flight=24)
    await asyncio.sleep(5)
    auto = Process(provider, path)
    await asyncio.sleep(SECONDS)
    assert fixed.pacer.state.in_flight >= 22  # a refused one keeps its place
    assert 0.2 < auto.accepted / (auto.accepted + fixed.accepted) < 0.27  # 8 of 32, and 5 s less
    assert auto.refused + fixed.refused < 0.01 * (auto.accepted + fixed.accepted)


@in_virtual_time
async def test_the_most_of_one_process_is_not_the_most_of_all(tmp_path):
    provider, path = providers.InFlightCap(), tmp_path / "x.calls"
    small, large = Process(provider, path, max_in_flight=4), Process(provider, path)
    await asyncio.sleep(SECONDS)
    assert small.pacer.state.in_flight <= 4
    assert large.accepted > 6 * small.accepted  # 28 to 4


@in_virtual_time
async def test_more_processes_than_calls_may_be_in_flight_take_turns(tmp_path):
    provider = providers.cap_of(2)()
    processes = [Process(provider, tmp_path / "x.calls") for _ in range(6)]
    await asyncio.sleep(SECONDS)
    accepted = [process.accepted for process in processes]
    assert min(accepted) > 0.8 * max(accepted)


@in_virtual_time
async def test_a_dead_process_is_forgotten_in_seconds(tmp_path):
    provider, path = providers.InFlightCap(), tmp_path / "x.calls"
    first, second = Process(provider, path), Process(provider, path)
    await asyncio.sleep(60)
    assert first.pacer.state.in_flight < 20
    second.kill()
    await asyncio.sleep(4)
    assert first.pacer.state.in_flight >= 29
    assert first.pacer.state.others == 0


@in_virtual_time
async def test_the_screen_says_that_it_is_shared(tmp_path):
    provider, path = providers.TokenBucket(), tmp_path / "x.calls"
    first, _, third = (Process(provider, path) for _ in range(3))
    await asyncio.sleep(20)
    assert ", shared with 2 other processes" in first.pacer.words
    third.kill()
    await asyncio.sleep(5)
    assert ", shared with 1 other process" in first.pacer.words
    assert first.pacer.state.calls_per_s < 15  # its own


@in_virtual_time
async def test_calls_of_a_number_that_are_refused_are_no_larger_than_others(tmp_path):
    path = tmp_path / "x.calls"
    auto = Process(providers.TokenBucket(), path)
    number = Pacer(log=lambda: Handle(path, "a boot"), max_in_flight=8, fixed=True)
    for _ in range(20):
        (await number.acquire(owner="refused")).refused()
        (await number.acquire(owner="answered")).ok()
        await asyncio.sleep(0.1)
    assert auto.pacer.memory["mean_cost"] == 1


@in_virtual_time
async def test_a_newcomer_knows_what_the_others_know(tmp_path):
    provider, path = providers.TokenBucket(), tmp_path / "x.calls"
    first = Process(provider, path)
    await asyncio.sleep(100)
    late = Process(provider, path)
    await asyncio.sleep(2)
    assert late.pacer.state.rate == pytest.approx(first.pacer.state.rate, rel=0.01)


# ---- the file -----------------------------------------------------------------------------------


@pytest.mark.slow
@in_virtual_time
async def test_the_files_stay_small(tmp_path):
    provider = providers.TokenBucket()
    for _ in range(2):
        Process(provider, tmp_path / "x.calls")
    await asyncio.sleep(600)
    sizes = [file.stat().st_size for file in tmp_path.iterdir()]
    assert MOST_BYTES < sum(sizes) < 2.1 * MOST_BYTES


@in_virtual_time
async def test_what_was_written_before_the_machine_started_again_is_void(tmp_path):
    path = tmp_path / "x.calls"
    Process(providers.InFlightCap(), path, boot="yesterday")
    await asyncio.sleep(10)
    process = Process(providers.InFlightCap(), path, boot="today")
    await asyncio.sleep(1)
    assert process.pacer.state.others == 0


@pytest.mark.parametrize(
    "line",
    [
        '["someone", 1, true, "sent"]',
        '["someone", 1, true, "sent", 1, "much", {}, 1]',
        '["someone", 1, true, "ok", 1, 2',
        f'["someone", {"9" * 400}, true, "here", 0]',
        "[" * 100_000,
        "\0\0",
    ],
    ids=["too short", "no number", "half", "too large", "too deep", "zeros"],
)
@in_virtual_time
async def test_a_damaged_line_is_named_and_each_goes_on_alone(line, tmp_path, caplog):
    path = tmp_path / "x.calls"
    process = Process(providers.TokenBucket(), path)
    await asyncio.sleep(5)
    with path.open("a") as file:
        file.write(line + "\n")
    await asyncio.sleep(15)
    [record] = caplog.records
    assert record.getMessage().startswith("the pace is not shared with other runs: ")
    assert process.accepted > 15 * 15
    first, second = (Process(process.provider, path) for _ in range(2))
    await asyncio.sleep(5)
    assert first.pacer.state.others == second.pacer.state.others == 1  # it was begun anew
    assert len(caplog.records) == 1


@in_virtual_time
async def test_a_process_that_was_stopped_with_the_lock_stops_nobody(tmp_path):
    provider, path = providers.InFlightCap(), tmp_path / "x.calls"
    first = Process(provider, path)
    await asyncio.sleep(20)
    with path.with_suffix(".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        late = Process(provider, path)
        await asyncio.sleep(20)
    assert first.accepted > 0.9 * 20 * 30 / 2
    assert late.accepted > 0.8 * 20 * 14


@in_virtual_time
async def test_a_log_in_whose_place_is_something_else_is_left(tmp_path, caplog):
    path = tmp_path / "x.calls"
    process = Process(providers.TokenBucket(), path)
    await asyncio.sleep(5)
    path.unlink()
    path.mkdir()
    await asyncio.sleep(15)
    assert len(caplog.records) == 1
    assert process.accepted > 15 * 15


@in_virtual_time
async def test_no_file_stays_open(tmp_path):
    def open_files():
        return len(list(Path("/proc/self/fd").iterdir()))

    for turn in range(20):
        pacer = Pacer(log=lambda: Handle(tmp_path / "x.calls", "a boot"))
        (await pacer.acquire()).ok()
        if turn == 5:
            before = open_files()
        await asyncio.sleep(1)
    del pacer
    gc.collect()
    assert open_files() <= before


@in_virtual_time
async def test_a_log_that_was_removed_is_made_again(tmp_path):
    path = tmp_path / "x.calls"
    first = Process(providers.TokenBucket(), path)
    await asyncio.sleep(5)
    for file in tmp_path.iterdir():
        file.unlink()
    await asyncio.sleep(5)
    second = Process(first.provider, path)
    await asyncio.sleep(5)
    assert first.pacer.state.others == second.pacer.state.others == 1


HAMMER = """
import json, pathlib, sys
from limpet.pacing import sharing
sharing.MOST_BYTES = 5_000
log, seen = sharing.CallLog(pathlib.Path(sys.argv[1]), "a boot"), []
seen += log.history()
for number in range(2_000):
    seen += log.news()
    with log.locked():
        seen += log.news()
        log.append(json.dumps([sys.argv[2], number]))
seen += log.news()
mine = [number for who, number in map(json.loads, seen) if who == sys.argv[2]]
assert mine == sorted(set(mine)), "twice, or not in order"
assert len(mine) > 1_950, len(mine)
"""


def test_a_file_that_is_begun_anew_all_the_time_loses_and_damages_nothing(tmp_path):
    command = [sys.executable, "-c", HAMMER, str(tmp_path / "x.calls")]
    running = [
        subprocess.Popen([*command, name], stderr=subprocess.PIPE, text=True) for name in "abcd"
    ]
    assert [process.communicate()[1] for process in running] == [""] * 4
    assert {file.suffix for file in tmp_path.iterdir()} == {".calls", ".old", ".lock"}


@in_virtual_time
async def test_a_call_whose_end_was_lost_is_not_in_flight_for_ever(tmp_path):
    provider, path = providers.InFlightCap(), tmp_path / "x.calls"
    first, second = Process(provider, path), Process(provider, path)
    await asyncio.sleep(60)
    second.handle.lost = 24
    await asyncio.sleep(10)
    before = first.accepted
    await asyncio.sleep(60)
    assert first.accepted - before > 0.8 * 60 * 14


@pytest.mark.parametrize("late_s", [-1e6, 1e6])
@in_virtual_time
async def test_a_process_of_another_boot_does_not_stop_this_one(late_s, tmp_path, caplog):
    provider, path = providers.TokenBucket(), tmp_path / "x.calls"
    clock = asyncio.get_running_loop().time
    first = Process(provider, path)
    await asyncio.sleep(20)
    other = Process(provider, path, boot="another", clock=lambda: clock() + late_s)
    await asyncio.sleep(60)
    accepted = first.accepted, other.accepted
    await asyncio.sleep(60)
    assert first.accepted - accepted[0] > 300  # half of the provider's limit
    assert other.accepted - accepted[1] > 10  # without sharing, the later one gets little
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("at", ["1e9", "NaN", '"1e9"'])
@in_virtual_time
async def test_a_line_from_the_future_is_damage(at, tmp_path, caplog):
    path = tmp_path / "x.calls"
    process = Process(providers.TokenBucket(), path)
    await asyncio.sleep(5)
    with path.open("a") as file:
        file.write(f'["0-x", {at}, true, "sent", 1, 1.0, {{}}, 1]\n')
    await asyncio.sleep(20)
    assert process.pacer.state.others == 0
    assert process.accepted > 300
    assert "not shared" in caplog.text


@in_virtual_time
async def test_a_number_is_no_elder_who_tells_where_the_limit_is(tmp_path):
    provider, path = providers.InFlightCap(), tmp_path / "x.calls"
    Process(provider, path, fixed=True, max_in_flight=4)
    await asyncio.sleep(1)
    first = Process(provider, path)
    await asyncio.sleep(140)
    second = Process(provider, path)
    await asyncio.sleep(2)
    assert second.pacer.state.limit <= first.pacer.state.limit + 4


@in_virtual_time
async def test_beside_a_number_what_was_remembered_counts(tmp_path):
    provider, path = providers.TokenBucket(), tmp_path / "x.calls"
    Process(provider, path, fixed=True, max_in_flight=2)
    await asyncio.sleep(1)
    pacer = Pacer(log=lambda: Handle(path, "a boot"))
    pacer.memory = {"version": 1, "rate": 20.0, "window": 40.0, "latency_s": 1.0, "mean_cost": 1.0}
    (await pacer.acquire()).ok()
    assert pacer.state.others == 1
    assert pacer.state.rate == 20.0


class TestWhere:
    """`shared_log` uses a folder that nobody else can change."""

    @pytest.fixture(autouse=True)
    def runtime(self, tmp_path, monkeypatch):
        monkeypatch.setenv("LIMPET_SHARE_PACE", "1")
        monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
        return tmp_path

    def test_the_folder_and_its_files_are_the_users(self, runtime):
        shared_log("https://a.test/v1 m", b"account").history()
        assert (runtime / "limpet").stat().st_mode & 0o777 == 0o700
        files = list((runtime / "limpet").iterdir())
        assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
        assert not any("a.test" in file.name + str(file.read_bytes()) for file in files)

    def test_one_log_for_each_account(self, runtime):
        for account in (b"one", b"one", b"two"):
            shared_log("https://a.test/v1 m", account).history()
        assert len(list((runtime / "limpet").glob("*.calls"))) == 2

    def test_without_a_runtime_folder_it_is_in_the_temporary_one(self, runtime, monkeypatch):
        monkeypatch.delenv("XDG_RUNTIME_DIR")
        monkeypatch.setattr("tempfile.tempdir", str(runtime))
        shared_log("https://a.test/v1 m", b"").history()
        assert list((runtime / f"limpet-{os.getuid()}").glob("*.calls"))

    @pytest.mark.parametrize("wrong", ["open to all", "a symlink", "a file", "no way in"])
    @in_virtual_time
    async def test_a_folder_that_others_may_change_is_not_used(self, wrong, runtime, caplog):
        folder = runtime / "limpet"
        if wrong == "a symlink":
            (runtime / "elsewhere").mkdir(mode=0o700)
            folder.symlink_to(runtime / "elsewhere")
        elif wrong == "a file":
            folder.touch()
        elif wrong == "no way in":
            folder.symlink_to(runtime / "nowhere")
        else:
            folder.mkdir()
            folder.chmod(0o755)
        registry = PacerRegistry(shared=True)
        for key in ("https://a.test/v1 m", "https://b.test/v1 m"):
            (await registry.get(key).acquire()).ok()
        [record] = caplog.records  # one line for both
        assert record.getMessage().startswith("the pace is not shared with other runs: ")
        assert not list(runtime.glob("*/*.calls"))

    @in_virtual_time
    async def test_a_log_that_is_a_symlink_is_not_followed(self, runtime, caplog):
        shared_log("https://a.test/v1 m", b"").history()
        [path] = (runtime / "limpet").glob("*.calls")
        path.unlink()
        path.symlink_to(runtime / "precious")
        (await PacerRegistry(shared=True).get("https://a.test/v1 m").acquire()).ok()
        assert len(caplog.records) == 1
        assert not (runtime / "precious").exists()
