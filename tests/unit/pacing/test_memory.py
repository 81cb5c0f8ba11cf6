"""What runs learned of an endpoint is kept for a day, and is a first guess."""

import fcntl
import json
import os
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from limpet.pacing import memory
from limpet.pacing.adaptive import AdaptiveLimits
from limpet.pacing.memory import PaceMemory, digest_of, of_the_user, restore_memory, save_memory
from limpet.pacing.registry import PacerRegistry, endpoint_for

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
import pacing
import providers

URL = "https://api.example.com gpt"
KEY = digest_of("sk-secret-1")
LEARNED = {"version": 1, "rate": 20.0, "latency_s": 1.0, "mean_cost": 1.0, "window": 40.0}


@pytest.fixture
def kept(tmp_path):
    return PaceMemory(tmp_path / "state" / "limpet")


def test_what_was_saved_is_there_for_the_same_endpoint_and_key(kept):
    kept.save([(URL, KEY, LEARNED)])
    assert PaceMemory(kept.path.parent).learned(URL, KEY) == LEARNED
    assert kept.learned(URL, digest_of("sk-secret-2")) == {}
    assert kept.learned("https://api.example.com other", KEY) == {}


def test_to_look_at_it_writes_nothing(kept):
    assert kept.learned(URL, KEY) == {}
    assert not kept.path.parent.exists()


def test_it_is_the_users_alone_and_has_no_key_in_it(kept):
    kept.save([(URL, KEY, LEARNED)])
    folder = kept.path.parent
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        content = path.read_bytes()
        assert b"sk-secret" not in content
        assert KEY not in content
        assert KEY.hex().encode() not in content
    assert not [path for path in folder.iterdir() if path.name.startswith(".pace")]


def test_it_holds_for_a_day(kept, monkeypatch):
    kept.save([(URL, KEY, LEARNED)])
    now = time.time()
    monkeypatch.setattr(memory.time, "time", lambda: now + 86_000)
    assert kept.learned(URL, KEY)
    monkeypatch.setattr(memory.time, "time", lambda: now + 87_000)
    assert not kept.learned(URL, KEY)
    kept.save([("https://other m", KEY, LEARNED)])
    assert [entry["endpoint"] for entry in json.loads(kept.path.read_text()).values()] == [
        "https://other m"
    ]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"a": 1}',
        b'{"a": {"endpoint": 3}}',
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_is_as_none_and_is_replaced(kept, content):
    kept.save([(URL, KEY, LEARNED)])
    kept.path.write_bytes(content)
    assert kept.learned(URL, KEY) == {}
    assert kept.is_damaged is not content.startswith(b'{"')
    kept.save([(URL, KEY, LEARNED)])
    assert kept.learned(URL, KEY) == LEARNED
    assert not kept.is_damaged


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path):
    (tmp_path / "state").write_text("a file")
    blocked = PaceMemory(tmp_path / "state" / "limpet")
    blocked.save([(URL, KEY, LEARNED)])
    assert blocked.learned(URL, KEY) == {}


def test_a_link_in_place_of_the_lock_is_not_followed(kept, tmp_path):
    kept.path.parent.mkdir(parents=True)
    (tmp_path / "victim").write_text("mine")
    (kept.path.parent / "pace.lock").symlink_to(tmp_path / "victim")
    kept.save([(URL, KEY, LEARNED)])
    assert (tmp_path / "victim").read_text() == "mine"


def test_it_is_forgotten_by_the_beginning_of_its_address(kept):
    kept.save([(URL, KEY, LEARNED), ("https://other m", KEY, LEARNED)])
    assert kept.forget("https://api.") == 1
    assert [entry["endpoint"] for entry in kept.entries().values()] == ["https://other m"]
    assert kept.forget() == 1
    assert not kept.entries()


def test_a_run_that_learned_nothing_changes_nothing(kept):
    kept.save([(URL, KEY, LEARNED)])
    before = kept.path.read_bytes()
    short = save_memory(AdaptiveLimits(lambda: 0.0, 1000))
    kept.save([(URL, KEY, short), ("https://other m", KEY, short)])
    assert kept.path.read_bytes() == before


def test_no_part_of_an_address_that_may_be_secret_is_in_it(kept):
    address = "https://user:hunter2@a.example/v1?api_key=sk-SECRET#x m"
    kept.save([(address, KEY, LEARNED)])
    assert kept.learned(address, KEY) == LEARNED
    assert [entry["endpoint"] for entry in kept.entries().values()] == ["https://a.example/v1 m"]


def test_a_stopped_process_with_the_lock_stops_nobody(kept):
    kept.save([(URL, KEY, LEARNED)])
    with kept.path.with_name("pace.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        kept.save([("https://other m", KEY, LEARNED)])
        with pytest.raises(OSError, match="temporarily unavailable"):
            kept.forget()
    assert len(kept.entries()) == 1


@pytest.mark.parametrize("name", ["pace.json", "salt", "pace.lock"])
@pytest.mark.parametrize("kind", ["a pipe", "a folder"])
def test_what_is_no_file_hangs_nothing_and_leaves_nothing(kept, name, kind):
    folder = kept.path.parent
    folder.mkdir(parents=True)
    (os.mkfifo if kind == "a pipe" else os.mkdir)(folder / name)
    kept.learned(URL, KEY)
    kept.save([(URL, KEY, LEARNED)])
    assert {path.name for path in folder.iterdir()} <= {"pace.json", "salt", "pace.lock"}


def test_a_salt_that_was_cut_off_is_made_again(kept):
    kept.path.parent.mkdir(parents=True)
    (kept.path.parent / "salt").touch()
    kept.save([(URL, KEY, LEARNED)])
    assert len((kept.path.parent / "salt").read_bytes()) == 32
    assert kept.learned(URL, KEY) == LEARNED


def test_processes_that_start_together_get_one_salt(tmp_path):
    code = (
        "import sys; from pathlib import Path; from limpet.pacing.memory import PaceMemory\n"
        "sys.stdin.read(1)\n"
        "folders = [Path(sys.argv[1], str(number)) for number in range(50)]\n"
        "for folder in folders: print(PaceMemory(folder).name_of('https://a m', b''))"
    )
    started = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )
        for _ in range(4)
    ]  # fmt: skip
    for process in started:
        process.stdin.close()
    names = [process.stdout.read() for process in started]
    for process in started:
        process.wait()
        process.stdout.close()
    assert len(set(names)) == 1
    assert names[0].count("\n") == 50


def test_a_time_that_is_no_number_is_not_listed(kept):
    entry = {"endpoint": URL, "at": str(time.time()), "learned": {}}
    kept.path.parent.mkdir(parents=True)
    kept.path.write_text(json.dumps({"x": entry}))
    assert not kept.entries()


def test_only_endpoints_with_an_address_are_remembered(kept):
    registry = PacerRegistry(remembered=kept)
    paced = endpoint_for("https://of-a-test.example m", "sk-secret-3")
    for key in ("workflow", paced, "http://127.0.0.1:1"):
        registry.get(key).memory = LEARNED
    registry.save()
    assert {entry["endpoint"] for entry in kept.entries().values()} == {paced, "http://127.0.0.1:1"}
    later = PacerRegistry(remembered=kept)
    assert later.get(paced).memory == LEARNED
    assert later.get("workflow").memory == {}


def test_a_number_neither_uses_nor_changes_it(kept):
    kept.save([(URL, b"", LEARNED)])
    registry = PacerRegistry(fixed=True, max_in_flight=4, remembered=kept)
    assert registry.get(URL).memory == {}
    registry.save()
    assert len(kept.entries()) == 1


def test_it_can_be_turned_off(monkeypatch, tmp_path):
    monkeypatch.setenv("LIMPET_REMEMBER_PACE", "0")
    assert of_the_user() is None
    monkeypatch.setenv("LIMPET_REMEMBER_PACE", "1")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert of_the_user().path == tmp_path / "limpet" / "pace.json"


# ---- a first guess -------------------------------------------------------------------------------


def test_where_nothing_was_refused_the_first_calls_show_whether_it_is_still_true():
    now = [0.0]
    learned = {"version": 1, "latency_s": 4.0, "window": 500.0, "idle_s": 1.0}
    for seconds, window in ((1.0, 500), (3.0, 48)):
        limits = AdaptiveLimits(lambda: now[0], 1000)
        restore_memory(limits, learned)
        assert limits.limit() == 16
        sent = [limits.send(1.0, {}, object()) for _ in range(16)]
        assert limits.wait_s(1.0, {}) is None
        now[0] += seconds
        for one in sent:
            limits.ok(one)
        assert limits.limit() == window


def test_the_second_run_on_a_server_that_only_queues_gets_there_sooner():
    cold = pacing.run(providers.Batching(0, 6000))
    warm = pacing.run(providers.Batching(0, 6000), cold.memory)
    assert warm.t90_s <= cold.t90_s - 4  # of which ten seconds are the window it is measured in
    assert warm.efficiency > cold.efficiency + 0.05


def test_a_refusal_at_a_remembered_cap_is_the_caps():
    model = providers.InFlightCap(0, 1000)
    result = pacing.run(model, {"version": 1, "in_flight": 32.0, "latency_s": 1.1, "window": 48.0})
    assert result.memory["in_flight"] == pytest.approx(32, abs=1)
    assert "rate" not in result.memory
    assert result.efficiency > 0.93


@pytest.mark.parametrize("cap", [3, 8, 32])
def test_at_a_remembered_cap_the_second_run_is_faster_and_refused_less(cap):
    cold = pacing.run(providers.cap_of(cap)(0, 2000))
    warm = pacing.run(providers.cap_of(cap)(0, 2000), cold.memory)
    assert warm.memory["in_flight"] == cap
    assert "rate" not in warm.memory
    assert warm.efficiency > max(0.95, cold.efficiency)
    assert warm.refused < cold.refused


def test_remembered_chance_is_refuted_within_20_calls_by_a_server_that_refuses_all():
    now = [0.0]
    limits = AdaptiveLimits(lambda: now[0], 1000)
    restore_memory(limits, {"version": 1, "chance": 0.2, "window": 40.0, "latency_s": 0.2})
    assert limits.chance.share == pytest.approx(0.2)
    for _ in range(20):
        now[0] += 0.1
        limits.refused(limits.send(1.0, {}, object()), 0.0)
    assert limits.chance.share == 0
