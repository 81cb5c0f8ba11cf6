"""A Ray whose autoscaler adds a node when somebody waits for room."""

import contextlib
import json
import os
import socket
import subprocess
import sys

from tests.engines.project import marked, wait_until


class AutoscaledRay:
    """A head without room, and Ray's own autoscaler, which adds at most one node of one CPU.

    Not `ray.cluster_utils.AutoscalingCluster`: it begins and ends by killing every Ray of this
    machine, and needs a file that is not in Ray's wheels.
    """

    def __init__(self, folder, mark):
        (folder / "token").write_text("limpet-test-token-" + mark)
        self.env = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(folder / "token"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "LIMPET_TEST_MARK": mark,
        }
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = "{}:{}".format(*free.getsockname())
        config = folder / "autoscaling.json"
        config.write_text(json.dumps(autoscaling(self.address)))
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block",
               "--node-ip-address=127.0.0.1", f"--port={self.address.partition(':')[2]}",
               "--num-cpus=0", "--include-dashboard=false",
               f"--autoscaling-config={config}"]  # fmt: skip
        more = {"RAY_TMPDIR": str(folder), "RAY_FAKE_CLUSTER": "1",
                "AUTOSCALER_UPDATE_INTERVAL_S": "1"}  # fmt: skip
        self._process = subprocess.Popen(
            ray, env={**os.environ, **self.env, **more},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        ready = "ray/session_*/metrics_agent_port_*"  # its raylet waits for this one
        try:
            wait_until(lambda: list(folder.glob(ready)), "the head")
        except AssertionError:
            self.close()
            raise

    def close(self):
        for pid in {self._process.pid, *marked(self.env["LIMPET_TEST_MARK"])}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)
        self._process.wait()


def autoscaling(address):
    """Return the configuration of an autoscaler whose nodes are processes of this machine."""
    none = {"resources": {}, "node_config": {}, "max_workers": 0}
    one = {"resources": {"CPU": 1}, "node_config": {}, "min_workers": 0, "max_workers": 1}
    provider = {"type": "fake_multinode", "use_node_id_as_ip": True, "gcs_address": address,
                "disable_node_updaters": True, "disable_launch_config_check": True}  # fmt: skip
    return {
        "cluster_name": "limpet", "max_workers": 1, "provider": provider, "upscaling_speed": 1.0,
        "idle_timeout_minutes": 5, "head_node_type": "ray.head.default",
        "available_node_types": {"ray.head.default": none, "one": one},
        "file_mounts": {}, "cluster_synced_files": [], "file_mounts_sync_continuously": False,
        "auth": {}, "docker": {}, "initialization_commands": [], "setup_commands": [],
        "head_setup_commands": [], "worker_setup_commands": [], "head_start_ray_commands": [],
        "worker_start_ray_commands": [],
    }  # fmt: skip
