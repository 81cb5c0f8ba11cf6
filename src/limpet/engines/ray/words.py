"""What do the driver, the gateway and the foremen say to each other?

A worker's own messages pass through them unread: only the driver reads what user code said.
"""

from limpet.errors import SetupError

# To the gateway, and from it to a foreman.
CONNECT, START, PASS, KILL, END_WORKER = "connect", "start", "pass", "kill", "end_worker"
# From the gateway; the last five from a foreman to the gateway as well.
CONNECTED, REFUSED, WAITING = "connected", "refused", "waiting"
STARTED, FAILED, FROM, SEEN, GONE = "started", "failed", "from", "seen", "gone"


class SlowStartError(SetupError):
    """Ray gave up its start by a time limit of its own: the machine is busy, so try again."""
