"""What is evaluated: a bot that asks a provider over HTTP, and an evaluator of our own."""

import os

from aiohttp import ClientSession


class Bot:
    """One instance for the whole run: it keeps its connections."""

    async def setup(self) -> None:
        """Begin."""
        self.session = ClientSession(raise_for_status=True)

    async def __call__(self, question: str) -> str:
        """Answer one question. A refusal or a failure is raised, and tried again by itself."""
        url = os.environ["PROVIDER_URL"]
        async with self.session.post(url, json={"question": question}) as response:
            answer: str = (await response.json())["answer"]
            return answer

    async def teardown(self) -> None:
        """End."""
        await self.session.close()


def is_short(output: str) -> bool:
    """Tell whether an answer is as short as a number should be."""
    return len(output) <= 3
