"""What is shown of the report that Python writes when a signal ends a process?

It has the stacks of all threads, in any order. A worker has many, and one of them crashed.
"""


def crashed_thread(report: str) -> str:
    """Return where the thread was that crashed, and how many others there were."""
    first, *parts = report.strip().split("\n\n")
    crashed = [part for part in parts if part.startswith("Current thread")]
    if not crashed:  # it was none of Python's, or there was no room for it
        return report
    others = sum(part.startswith("Thread 0x") for part in parts)
    words = {0: [], 1: ["and 1 other thread"]}.get(others, [f"and {others} other threads"])
    return "\n\n".join([first, *crashed, *words])
