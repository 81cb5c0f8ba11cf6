"""A stand-in for `nat serve` that adds the numbers in a question. Stop it with Ctrl-C.

Usage: python server.py [PORT]
"""

import json
import re
import sys

from aiohttp import web


async def generate(request: web.Request) -> web.StreamResponse:
    """Answer with a stream of events, like the toolkit's server."""
    question = str((await request.json())["input_message"])
    reply = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await reply.prepare(request)
    total = sum(map(int, re.findall(r"\d+", question)))
    await reply.write(f"data: {json.dumps({'value': str(total)})}\n\n".encode())
    await reply.write_eof()
    return reply


def main() -> None:
    """Serve until interrupted."""
    app = web.Application()
    app.router.add_post("/generate/full", generate)
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 8000
    web.run_app(app, host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
