"""A server in a process of its own that answers anything after a while, and counts.

In the test's own process, it would take the interpreter from the calls that it counts. As a
program, it prints its address; when stdin ends, it prints the moments at which a request came (1)
or was answered (-1), each with how long the test and itself had waited for a processor by then.
"""

import asyncio
import itertools
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

from aiohttp import web

MESSAGE = {"role": "assistant", "content": json.dumps({"reason": "x", "label": "correct"})}
CHOICE = {"index": 0, "message": MESSAGE, "finish_reason": "stop"}
BODY = json.dumps({"value": "x", "choices": [CHOICE], "model": "m"}).encode()


class CountingServer:
    """The server, as a test sees it.

    Args:
        seconds: How long an answer takes on average.
        spread: By which part of that it may take more or less.

    Attributes:
        url: Where it is.
    """

    def __init__(self, seconds, spread=0.0):
        self._seconds = seconds
        self._process = subprocess.Popen(
            [sys.executable, __file__, str(seconds), str(spread)], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.url = self._process.stdout.readline().strip()

    def in_flight(self, pace, calls):
        """End it; return the most in flight at once, and how many on average over time.

        The average is from one latency after the first success until fewer than `pace` of the
        calls are left to start. While the test or the server waits for a processor that others
        use, all count as in flight: no call can start then, whatever is tested.
        """
        moments = json.loads(self._process.communicate()[0])
        starts = [at for at, more, _ in moments if more == 1]
        assert len(starts) == calls
        begin = next(at for at, more, _ in moments if more == -1) + self._seconds
        end = starts[-pace]
        most, now, total = 0, 0, 0.0
        for (at, more, before), (following, _, after) in itertools.pairwise(moments):
            now += more
            most = max(most, now)
            seconds = max(0.0, min(following, end) - max(at, begin))
            waited_s = min(seconds, after - before)
            total += now * (seconds - waited_s) + pace * waited_s
        return most, total / (end - begin)

    def close(self):
        self._process.kill()
        self._process.communicate()


# ---- the program --------------------------------------------------------------------------------


def waited_s():
    """Return how long the test and this process have waited for a processor; 0: nobody knows."""
    try:
        known = [Path(f"/proc/{pid}/schedstat").read_text() for pid in (os.getppid(), os.getpid())]
    except OSError:
        return 0.0
    return sum(int(one.split()[1]) for one in known) / 1e9


async def main(seconds, spread):
    moments = []
    chance = random.Random(0)

    async def answer(request):
        moments.append((time.monotonic(), 1, waited_s()))
        await request.read()
        await asyncio.sleep(seconds * chance.uniform(1 - spread, 1 + spread))
        moments.append((time.monotonic(), -1, waited_s()))
        return web.Response(body=BODY, content_type="application/json")

    runner = web.ServerRunner(web.Server(answer, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=1024).start()
    sys.stdout.write(f"http://127.0.0.1:{runner.addresses[0][1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    json.dump(moments, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main(*map(float, sys.argv[1:])))
