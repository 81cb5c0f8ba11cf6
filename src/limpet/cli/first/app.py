"""A bot that does sums. Put your own workflow in its place."""

import asyncio
import random


async def answer(question: str) -> str:
    """Take a question such as "What is 6 × 7?", and answer it."""
    await asyncio.sleep(random.uniform(0.2, 1.0))  # a model takes its time
    if random.random() < 0.05:
        raise ConnectionError("the line broke")  # … and fails now and then: it is tried again
    a, b = (int(number) for number in question.removesuffix("?").split()[2::2])
    product = a * b
    return str(product) if product < 500 else f"about {product // 10 * 10}"  # … and is not perfect


def is_short(output: str) -> bool:
    """Look at one answer: an evaluator of your own is a function."""
    return len(output) <= 5
