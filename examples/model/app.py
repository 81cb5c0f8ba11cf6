"""A workflow that asks a model: any server with OpenAI's chat completions API.

The key is in the environment, never in a file: export OPENAI_API_KEY=… OPENAI_BASE_URL names
another server, for example a local one, and OPENAI_MODEL another model.
"""

import os
from pathlib import Path

import aiohttp

from limpet import Output, SetupError, Usage

PROMPT = (Path(__file__).parent / "prompt.txt").read_text(encoding="utf-8")
BASE_URL = os.environ.get("OPENAI_BASE_URL", "https://api.openai.com/v1")
MODEL = os.environ.get("OPENAI_MODEL", "gpt-4.1-mini")


class Answer:
    """Asks the model one question per call, over connections that all calls share."""

    async def setup(self) -> None:
        """Open the connections: once, before the first call."""
        key = os.environ.get("OPENAI_API_KEY")
        if not key:
            raise SetupError("OPENAI_API_KEY is not set", hint="export OPENAI_API_KEY=…")
        self._session = aiohttp.ClientSession(
            headers={"Authorization": f"Bearer {key}"},
            connector=aiohttp.TCPConnector(limit=0),  # Limpet decides how many calls are in flight
            raise_for_status=True,  # Limpet knows what a 429, a 500 or a 401 means
        )

    async def __call__(self, question: str) -> Output:
        """Answer a question, and say which tokens it took."""
        messages = [
            {"role": "system", "content": PROMPT},
            {"role": "user", "content": question},
        ]
        body = {"model": MODEL, "messages": messages, "temperature": 0}
        async with self._session.post(f"{BASE_URL}/chat/completions", json=body) as response:
            reply = await response.json()
        used = reply["usage"]
        usage = Usage(used["prompt_tokens"], used["completion_tokens"])
        return Output(reply["choices"][0]["message"]["content"].strip(), usage=usage)

    async def teardown(self) -> None:
        """Close the connections."""
        await self._session.close()
