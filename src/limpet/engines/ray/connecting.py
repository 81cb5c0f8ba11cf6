"""How does the gateway connect to Ray, and what does the user see if it cannot?

`ray.init` at a wrong address hangs for minutes, and cannot be interrupted. So the address is probed
first: Ray speaks HTTP/2, and a server that does not answer HTTP/2's first bytes is not Ray.

Only the gateway calls this, never the driver.
"""

import json
import logging
import os
import socket
from typing import Any

from limpet.engines.ray.settings import AUTO, LOCAL, SlowStartError
from limpet.errors import SetupError
from limpet.text import one_line, text_of

_PROBE_S = 5.0
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_ANSWER = b"\x04"  # the type of a SETTINGS frame, after three bytes of length
_FEWER_TRIES = ("RAY_NUM_REDIS_GET_RETRIES", "4")  # a second each; Ray tries a wrong token 20 times
_STARTS_BY_ITSELF = "RAY_ENABLE_AUTO_CONNECT"
_STORE_BYTES = 80 * 2**20  # messages are small; Ray's minimum is 75 MB


def connect(settings: dict[str, Any]) -> Any:
    """Connect to Ray, or start one; return the imported package.

    Raises:
        SetupError: Ray cannot be reached or started.
    """
    where = settings["where"]
    if where == LOCAL:
        return _start(settings)
    os.environ.setdefault(*_FEWER_TRIES)  # Ray reads it when imported
    if where == AUTO:
        where = _found()
    probe(where)
    ray = _imported()
    try:
        ray.init(address=where, **_common(settings))
    except BaseException as error:  # noqa: BLE001 - Ray raises many
        raise refusal(where, error) from None
    return ray


def _start(settings: dict[str, Any]) -> Any:
    """Start our own Ray, which nobody else finds and whose processes end with this one."""
    # The token is in the environment, not in a file: a killed process leaves its files.
    os.environ.update(
        RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=os.urandom(32).hex(), RAY_USAGE_STATS_ENABLED="0"
    )
    os.environ.pop("RAY_AUTH_TOKEN_PATH", None)
    wanted = dict(settings["resources"])
    ray = _imported()
    workers = settings["workers"]
    try:
        ray.init(
            address="local",
            num_cpus=max(1, round(workers * wanted.get("CPU", 0))),
            object_store_memory=_STORE_BYTES,
            include_dashboard=False,
            _temp_dir=settings["temp"],
            _node_ip_address="127.0.0.1",
            **_common(settings),
        )
    except BaseException as error:  # noqa: BLE001 - Ray raises many
        raise refusal(LOCAL, error) from None
    return ray


def _common(settings: dict[str, Any]) -> dict[str, Any]:
    return {
        "runtime_env": json.loads(settings["runtime_env"]) or None,
        "log_to_driver": False,
        "logging_level": logging.ERROR,
        "namespace": "limpet",
    }


def _imported() -> Any:
    """Import Ray, and keep it from starting a Ray that nobody requested.

    Without a connection, its functions start a Ray. Calls in progress when the gateway disconnects,
    or when the connection breaks, would start one on the user's machine.
    """
    before = os.environ.get(_STARTS_BY_ITSELF)
    os.environ[_STARTS_BY_ITSELF] = "0"  # Ray reads it when imported
    try:
        import ray  # noqa: PLC0415 - only here
    finally:  # the workers of a local Ray inherit this environment
        del os.environ[_STARTS_BY_ITSELF]
        if before is not None:
            os.environ[_STARTS_BY_ITSELF] = before
    return ray


def _found() -> str:
    """Return the address of the Ray that runs on this machine."""
    _imported()
    from ray._private.utils import read_ray_address  # noqa: PLC0415

    found = read_ray_address()
    if not found:
        raise SetupError(
            "engine: ray: address: auto: Ray is not running on this machine",
            hint="start one with `ray start --head`, or give its address: host:port",
        )
    return str(found)


def probe(where: str) -> None:
    """Check that a Ray may be at an address.

    Raises:
        SetupError: There is none.
    """
    address = where.removeprefix("ray://")
    host, _, port = address.rpartition(":")
    hint = (
        "check the address (RAY_ADDRESS, or engine: {ray: {address: …}}), and that Ray is running"
    )
    try:
        with socket.create_connection((host.strip("[]"), int(port)), _PROBE_S) as connection:
            if os.environ.get("RAY_USE_TLS", "0") not in ("", "0"):
                return  # TLS comes first, and needs certificates
            connection.settimeout(_PROBE_S)
            connection.sendall(_HELLO)
            answer = connection.recv(9)
    except TimeoutError:
        raise SetupError(
            f"no Ray at {address}: no answer within {_PROBE_S:g} s", hint=hint
        ) from None
    except (OSError, ValueError) as error:
        why = one_line(text_of(error))
        raise SetupError(f"Ray cannot be reached at {address}: {why}", hint=hint) from None
    if answer[3:4] != _ANSWER:
        raise SetupError(f"the server at {address} is not Ray", hint=hint)


def refusal(where: str, error: BaseException) -> SetupError:
    """Return Ray's error as a SetupError with a hint."""
    text = text_of(error).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    words = one_line(" ".join(lines[:8]))
    of = "a local Ray" if where == LOCAL else f"Ray at {where.removeprefix('ray://')}"
    kind = type(error).__name__
    # Ray's raylet waits 15 s for its agent, a Python process, and exits if that takes longer.
    if where == LOCAL and "imed out" in text:
        return SlowStartError(
            f"{of} did not start within Ray's own time limits: {words}",
            hint="the machine is too busy: try again later, or use engine: processes",
        )
    if "ersion mismatch" in text:
        return SetupError(
            f"{of} has another version: {words}",
            hint="install the same versions of Ray and Python on both sides",
        )
    if "Authentication" in kind or "oken" in text or isinstance(error, ConnectionError):
        return SetupError(
            f"{of} responded, but refused the connection: {words}",
            hint="set RAY_AUTH_MODE and RAY_AUTH_TOKEN_PATH as on the cluster",
        )
    if "RuntimeEnv" in kind or "runtime_env" in text or "working_dir" in text:
        return SetupError(
            f"{of} cannot prepare the runtime_env: {words}",
            hint="check engine: {ray: {runtime_env: …}}",
        )
    if where == LOCAL:
        return SetupError(f"{of} could not be started: {kind}: {words}", hint=_LOCAL_HINT)
    return SetupError(f"{of} failed: {kind}: {words}", hint="check the cluster with `ray status`")


_LOCAL_HINT = "run `ray start --head` to see why; or use engine: processes"
