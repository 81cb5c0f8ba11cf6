"""The workflow, a bot that calls a provider over HTTP, and an evaluator."""

import os

from aiohttp import ClientSession


class Bot:
    """A bot that keeps its connections: Limpet creates one instance for the whole run."""

    async def setup(self) -> None:
        """Open the session, before the first call."""
        self.session = ClientSession(raise_for_status=True)

    async def __call__(self, question: str) -> str:
        """Answer a question. If the provider refuses or fails, Limpet retries the call."""
        url = os.environ["PROVIDER_URL"]
        async with self.session.post(url, json={"question": question}) as response:
            answer: str = (await response.json())["answer"]
            return answer

    async def teardown(self) -> None:
        """Close the session, after the last call."""
        await self.session.close()


def is_short(output: str) -> bool:
    """Return whether an answer has at most three characters."""
    return len(output) <= 3
