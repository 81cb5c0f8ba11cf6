"""Makes the runs that the pictures show: a support bot with a judge, trials, failures and traces.

No model is asked: answers, verdicts and times are drawn from a fixed seed.
"""

import asyncio
import random
import sys
import time
from pathlib import Path
from typing import Any

import limpet

TOPICS = {
    "refund": ["How long does a refund take?", "I was charged twice for order {n}. What now?",
               "Can I get a refund without the receipt?"],
    "delivery": ["Where is my parcel {n}?", "Do you deliver to Norway?",
                 "The box of order {n} arrived open. Is that covered?"],
    "account": ["I cannot log in with {n}@example.org.", "How do I delete my account?",
                "Why was my account locked after {n} attempts?"],
    "warranty": ["The kettle of order {n} leaks. Is there a warranty?",
                 "How long is the warranty on lamps?"],
}  # fmt: skip
LOST = 0.03
"""The share of calls that time out."""
ANSWERS = {
    "refund": "A refund takes five working days. It goes to the card that you paid with.",
    "delivery": "Parcels take two to four days. You can follow yours under My orders.",
    "account": "Please use Forgot password on the login page. The link is valid for an hour.",
    "warranty": "Everything we sell has two years of warranty. Send us a picture of the fault.",
}


def rows(many: int) -> list[dict[str, Any]]:
    """Return tickets."""
    chance = random.Random(7)
    found = []
    for number in range(many):
        topic = chance.choice(list(TOPICS))
        question = chance.choice(TOPICS[topic]).format(n=4000 + 17 * number)
        found.append({
            "id": f"ticket-{number + 1:04}", "question": question, "answer": ANSWERS[topic],
            "topic": topic, "lang": chance.choice(["en", "en", "en", "de", "fr"]),
        })  # fmt: skip
    return found


class SupportBot:
    """Answers tickets, some of them badly; a newer version is better and slower."""

    def __init__(self, quality: float, pause_s: float) -> None:
        self.quality, self.pause_s = quality, pause_s

    async def __call__(self, item: limpet.Item) -> limpet.Output:
        question, row = item.input, item.row
        chance = random.Random(f"{question}{row['id']}{self.quality}{time.monotonic_ns() % 7}")
        began = time.time()
        await asyncio.sleep(self.pause_s * chance.lognormvariate(0, 0.5))
        looked_up = time.time()
        if chance.random() < LOST:
            raise TimeoutError(f"the order service did not answer for {row['id']}")
        await asyncio.sleep(self.pause_s * chance.lognormvariate(0.3, 0.6))
        ended = time.time()
        good = ANSWERS[row["topic"]]
        bad = [
            "I am sorry, I cannot help with that.",
            good.split(". ")[0] + ".",
            "Please call us on weekdays between nine and five.",
        ]
        answer = good if chance.random() < self.quality else chance.choice(bad)
        usage = {"prompt_tokens": chance.randint(280, 420), "completion_tokens": len(answer) // 4}
        usage["total_tokens"] = sum(usage.values())
        trace = [
            {"kind": "agent", "name": "support-bot", "id": "a", "started": began, "ended": ended,
             "input": question, "output": answer},
            {"kind": "tool", "name": "find_article", "id": "b", "parent": "a", "started": began,
             "ended": looked_up, "input": {"topic": row["topic"], "lang": row["lang"]},
             "output": [{"title": f"About {row['topic']}", "score": round(chance.random(), 3)}]},
            {"kind": "model", "name": "small-model", "id": "c", "parent": "a", "started": looked_up,
             "ended": ended, "input": [{"role": "system", "content": "You answer tickets."},
             {"role": "user", "content": question}], "output": answer, "usage": usage},
        ]  # fmt: skip
        about = limpet.Usage(usage["prompt_tokens"], usage["completion_tokens"],
                             cost=usage["total_tokens"] * 2.5e-7)  # fmt: skip
        return limpet.Output(answer, about, trace=trace)


@limpet.evaluator
async def helpful(output: str, expected: str) -> limpet.Score:
    """Stand in for a model that judges."""
    await asyncio.sleep(0.002)
    if output == expected:
        return limpet.Score(
            1.0, "helpful", explanation="It answers the question and says what happens next."
        )
    if expected.startswith(output[:20]):
        return limpet.Score(
            0.5, label="partly", explanation="It is right, but does not say what to do next."
        )
    return limpet.Score(
        0.0, label="not helpful", explanation="It sends the customer away without an answer."
    )


def make(run: Path, quality: float, many: int, *, pause_s: float = 0.02, trials: int = 2) -> None:
    """Make one run."""
    limpet.evaluate(
        limpet.Dataset(rows(many), id="id", input="question", expected="answer"),
        SupportBot(quality, pause_s),
        [helpful, limpet.similarity()],
        run=limpet.Run(run),
        version=f"quality {quality}",
        pace=16,
        trials=trials,
        fail_fast=False,
    )


if __name__ == "__main__":
    make(Path(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), pause_s=float(sys.argv[4]))
