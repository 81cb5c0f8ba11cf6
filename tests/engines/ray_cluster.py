"""A Ray cluster of several nodes on this machine, in a process of its own.

Ray can end or hang whoever imports it: no test does. As a program, it prints its address, and a
line on stdin is a command: `add NAME CPUS`, `remove NAME`, `kill NAME` (the raylet, with -9).
"""

import json
import os
import subprocess
import sys
from pathlib import Path


class RayCluster:
    """The cluster, as a test sees it.

    Attributes:
        address: For `RAY_ADDRESS`, or `engine: {ray: {address: …}}`.
        env: The environment variables that its clients need.
    """

    def __init__(self, folder, mark):
        token = folder / "token"
        token.write_text("limpet-test-token-" + mark)
        self.env = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "LIMPET_TEST_MARK": mark,
        }
        self._process = subprocess.Popen(
            [sys.executable, __file__], env={**os.environ, **self.env}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.address = self._answer()

    def _answer(self):
        line = self._process.stdout.readline()
        assert line, "the cluster did not start"
        return json.loads(line)

    def tell(self, *words):
        """Add, remove or kill a node; return when it is done."""
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def actors(pids):
    """Return those of these processes that are Ray's actors, by the names that Ray gives them."""
    found = []
    for pid in pids:
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if line.startswith(b"ray::") and not line.startswith(b"ray::IDLE"):
            found.append(pid)
    return found


# ---- the program --------------------------------------------------------------------------------


def main():
    from ray.cluster_utils import Cluster

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints what it likes

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    # The head has no room for work: it does not matter which of the others is lost.
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    nodes = {name: cluster.add_node(num_cpus=1) for name in ("first", "second")}
    cluster.wait_for_nodes()
    answer(cluster.address)
    for line in sys.stdin:
        command, name, *more = line.split()
        if command == "add":
            nodes[name] = cluster.add_node(num_cpus=int(more[0]))
            cluster.wait_for_nodes()
        elif command == "remove":
            cluster.remove_node(nodes.pop(name), allow_graceful=True)
        elif command == "kill":
            cluster.remove_node(nodes.pop(name), allow_graceful=False)
        answer("done")
    cluster.shutdown()


if __name__ == "__main__":
    main()
