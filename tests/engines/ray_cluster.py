"""A Ray cluster of several nodes on this machine, in a process of its own.

Ray can end or hang whoever imports it: no test does. As a program, it prints its address and its
nodes, and a line on stdin is a command: `add NAME`, `remove NAME`, `kill NAME` (with -9).
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

STARTS = 3  # where the machine is busy, a raylet gives up after 15 s


class RayCluster:
    """The cluster, as a test sees it.

    Attributes:
        address: For `RAY_ADDRESS`, or `engine: {ray: {address: …}}`.
        env: The environment variables that its clients need.
        nodes: The raylets' process ids by the names of their nodes.
    """

    def __init__(self, mark):
        self._folder = tempfile.mkdtemp(prefix="lrc-")  # a short one: the names of sockets are
        token = Path(self._folder) / "token"
        token.write_text("limpet-test-token-" + mark)
        self.env = {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "LIMPET_TEST_MARK": mark,
        }
        self.address, self.nodes = self._start()

    def _start(self):
        for _ in range(STARTS):
            self._process = subprocess.Popen(
                [sys.executable, __file__], text=True,
                env={**os.environ, **self.env, "RAY_TMPDIR": self._folder},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            line = ""
            try:
                line = self._process.stdout.readline()
            finally:
                if not line:  # also if the test's time is over
                    self._end(0)
            if line:
                return json.loads(line)
        shutil.rmtree(self._folder, ignore_errors=True)
        raise AssertionError("the cluster did not start")

    def add(self, name):
        """Add a node of one CPU; return when it is there."""
        for _ in range(STARTS):
            if (raylet := self._tell("add", name)) is not None:
                self.nodes[name] = raylet
                return
        raise AssertionError("the node did not start")

    def remove(self, name):
        self._tell("remove", name)
        del self.nodes[name]

    def kill(self, name):
        """Kill the raylet of a node with -9, and what else it has."""
        self._tell("kill", name)
        del self.nodes[name]

    def node_of(self, pid):
        """Return the name of the node that a process belongs to; None: none that is here."""
        names = {raylet: name for name, raylet in self.nodes.items()}
        while pid > 1 and pid not in names:
            try:
                stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
            except OSError:
                return None
            pid = int(stat.rpartition(")")[2].split()[1])
        return names.get(pid)

    def _tell(self, *words):
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the cluster is gone"
        return json.loads(line)

    def _end(self, patience_s=60):
        self._process.stdin.close()
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def close(self):
        self._end()
        shutil.rmtree(self._folder, ignore_errors=True)


# ---- the program --------------------------------------------------------------------------------


def main():
    from ray.cluster_utils import Cluster

    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # Ray prints what it likes

    def answer(value):
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    def raylet(node):
        return node.all_processes["raylet"][0].process.pid

    # The head has no room for work: it does not matter which of the others is lost.
    head = {"num_cpus": 0, "include_dashboard": False, "no_monitor": True,
            "include_log_monitor": False}  # fmt: skip
    cluster = Cluster(initialize_head=True, head_node_args=head)
    nodes = {name: cluster.add_node(num_cpus=1) for name in ("first", "second")}
    cluster.wait_for_nodes()
    answer([cluster.address, {name: raylet(node) for name, node in nodes.items()}])
    for line in sys.stdin:
        command, name = line.split()
        if command == "add":
            try:
                nodes[name] = cluster.add_node(num_cpus=1)
            except Exception:
                answer(None)
                continue
            answer(raylet(nodes[name]))
        else:
            cluster.remove_node(nodes.pop(name), allow_graceful=command == "remove")
            answer("done")
    cluster.shutdown()


if __name__ == "__main__":
    main()
