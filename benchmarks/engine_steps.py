"""What the cells of `engines.py` do."""

import asyncio
import time


async def nothing(question: int) -> int:
    return question


def plainly_nothing(question: int) -> int:
    return question


async def wait(question: int) -> int:
    await asyncio.sleep(0.2)
    return question


def compute(question: int) -> int:
    until = time.thread_time() + 0.02
    total = question
    while time.thread_time() < until:
        total += sum(range(100))
    return question
