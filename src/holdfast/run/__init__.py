"""Where executors, pacing and the journal meet: what has to be done, doing it, what came out."""

from holdfast.run.map import amap, map  # noqa: A004 - it is one
from holdfast.run.result import MapResult

__all__ = ["MapResult", "amap", "map"]
