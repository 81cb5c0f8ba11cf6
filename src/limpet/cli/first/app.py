"""A bot that multiplies. Replace it with your own workflow."""

import asyncio
import random


async def answer(question: str) -> str:
    """Answer a question like "What is 6 × 7?"."""
    await asyncio.sleep(random.uniform(0.2, 1.0))  # a model takes time
    if random.random() < 0.05:
        raise ConnectionError("connection lost")  # … and sometimes fails: it is retried
    a, b = (int(number) for number in question.removesuffix("?").split()[2::2])
    product = a * b
    return str(product) if product < 500 else f"about {product // 10 * 10}"  # … and is not perfect


def is_short(output: str) -> bool:
    """Check one answer: your own evaluator is a function."""
    return len(output) <= 5
