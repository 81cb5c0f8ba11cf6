"""The runs for the tests of pages."""

import asyncio
import re

import limpet

HOSTILE = [
    "<script>window.hacked = 1; alert(1)</script>",
    "<img src=x onerror='window.hacked = 2'>",
    "</script><script>window.hacked = 3</script>",
    "javascript:window.hacked=4",
    "a\u202eb\u2066c\u0000d\x1b[2J\x1b]0;title\x07",
    "${window.hacked=5}{{constructor.constructor('window.hacked=6')()}}",
    "__proto__",
    "half\ud800 a character",
]


def rows(many):
    return [
        {
            "id": f"q{n:03}",
            "question": f"question {n}",
            "answer": f"answer {n}",
            "topic": "ab"[n % 2],
        }
        for n in range(many)
    ]


def closeness(output, expected):
    number = int(expected.split()[1])
    value = 1.0 if output == expected else (number % 10) / 20
    return limpet.Score(value, "right" if output == expected else "wrong", f"because of {number}")


async def answer(item):
    await asyncio.sleep(0)
    number = int(item.id[1:])
    if number == 7:
        raise ValueError("seven is not answered")
    trace = [
        {"kind": "agent", "name": "bot", "id": "1", "started": 0.0, "ended": 2.0},
        {"kind": "tool", "name": "look_up", "id": "2", "parent": "1", "started": 0.5, "ended": 1.0,
         "input": {"n": number}, "output": "found"},
    ]  # fmt: skip
    said = item.expected if number % 3 else f"another {number}"
    return limpet.Output(said, limpet.Usage(10, 5, cost=0.001 * (number + 1)), trace)


def make(run, workflow=answer, many=40, evaluators=None, dataset=None, **options):
    return limpet.evaluate(
        dataset or rows(many), workflow, evaluators or {"closeness": closeness},
        run=limpet.Run(run, durability="flush"), version="1", fail_fast=False, retry=0,
        show=False, **options,
    )  # fmt: skip


def first_rows(page, many=3):
    page.locator("tbody tr[data-name=row] th").first.wait_for()
    return page.locator("tbody tr[data-name=row] th").all_inner_texts()[:many]


def blocks_of(report):
    """Return the blocks of data in a report, by name."""
    pattern = r'<script type="text/plain" id="([^"]+)">([^<]*)</script>'
    return dict(re.findall(pattern, report.read_text()))
