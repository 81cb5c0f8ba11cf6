"""How does each peer's own controller run a list of calls? One function for each.

Each takes the controller from the peer's own package, with its own defaults, and gives it nothing
but the calls, a limit for the time of one call, and the loop's clock: virtual or real, it is the
same code. Those that sleep in threads (MLflow, botocore) run unchanged in greenlets, where a sleep
is the loop's. The packages are imported by the functions: a run loads one of them.

`league.py` runs them.
"""

import asyncio
import io
import json
import logging
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import providers as p
from greenlet import getcurrent, greenlet

from limpet import AsyncExecutor
from limpet.executors.retry import Backoff

LEAST_S = 1e-6
"""The shortest sleep: a shorter one would not move a virtual clock, and its caller would spin."""


@dataclass(frozen=True)
class Work:
    """What is to be done: the calls, and where a peer with an HTTP client of its own sends them."""

    call: Callable[[p.Item], Coroutine[Any, Any, int]]
    items: list[p.Item]
    timeout_s: float
    costs: bool = False
    url: str | None = None

    async def timed(self, item: p.Item) -> int:
        """Make one call, as a client with a timeout."""
        async with asyncio.timeout(self.timeout_s):
            return await self.call(item)


Outputs = list[int | None]
Peer = Callable[[Work], Coroutine[Any, Any, Outputs]]


def now() -> float:
    return asyncio.get_running_loop().time()


def awaited(awaitable: Awaitable[Any]) -> Any:
    """Wait for it from within a greenlet, while the loop goes on."""
    return getcurrent().parent.switch(awaitable)


def sleep(seconds: float) -> None:
    awaited(asyncio.sleep(max(seconds, LEAST_S)))


async def in_greenlet(function: Callable[[], Any]) -> Any:
    """Run a function that waits with `awaited`, as a thread would run it."""
    child = greenlet(function)
    said = child.switch()
    while not child.dead:
        try:
            answer = await said
        except Exception as error:  # noqa: BLE001 - it belongs to whom waits for it
            said = child.throw(error)
        else:
            said = child.switch(answer)
    return said


class Condition:
    """As much of `threading.Condition` as botocore's bucket needs, for greenlets."""

    def __init__(self, lock: object) -> None:
        del lock  # greenlets change places only in `wait`
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def wait(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        timer = asyncio.get_running_loop().call_later(max(seconds, LEAST_S), wake, future)
        self._waiting.append(future)
        awaited(future)
        timer.cancel()

    def notify(self) -> None:
        while self._waiting:
            if wake(self._waiting.popleft()):
                return


def wake(future: asyncio.Future[None]) -> bool:
    if future.done():
        return False
    future.set_result(None)
    return True


async def in_pool(
    workers: int, work: Work, one: Callable[[p.Item], Coroutine[Any, Any, int]]
) -> Outputs:
    """Give the items to so many workers; an error that comes out is an item lost."""
    outputs: Outputs = [None] * len(work.items)
    queue = iter(work.items)

    async def worker() -> None:
        for item in queue:
            with suppress(Exception):
                outputs[item.index] = await one(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(workers):
            group.create_task(worker())
    return outputs


async def run_limpet(work: Work) -> Outputs:
    """Ours, with `auto`."""
    executor: AsyncExecutor[p.Item, int] = AsyncExecutor(
        work.call,
        concurrency="auto",
        cost=(lambda item: item.estimate) if work.costs else None,
        timeout=work.timeout_s,
        exit_on_error=False,
        termination_signal=None,
        backoff=Backoff(rng=random.Random(0)),
    )
    outputs, _ = await executor.execute(work.items)
    return list(outputs)


async def run_inspect(work: Work) -> Outputs:
    """Inspect's `Model.generate`: its adaptive connections and its retries, which never end."""
    from inspect_ai.model import (  # noqa: PLC0415 - see above
        GenerateConfig,
        ModelAPI,
        ModelOutput,
        RetryDecision,
        get_model,
        modelapi,
    )
    from inspect_ai.util import _concurrency  # noqa: PLC0415

    _concurrency.time = SimpleNamespace(monotonic=now, time=now)
    _concurrency.init_concurrency()

    @modelapi(name="league")  # type: ignore[untyped-decorator]  # as below
    class API(ModelAPI):  # type: ignore[misc]  # not installed where types are checked
        async def generate(self, input: Any, **_: Any) -> Any:  # noqa: A002 - its name for it
            index = int(input[-1].text)
            return ModelOutput.from_content("league", str(await work.call(work.items[index])))

        def should_retry(self, ex: Exception) -> Any:
            # As its provider for OpenAI: 429, or the server's fault.
            if isinstance(ex, p.HTTPStatusError):
                refused = ex.response.status_code == 429
                return RetryDecision.rate_limit() if refused else RetryDecision.transient()
            return RetryDecision.no()

    # It gives up an attempt after whole seconds.
    config = GenerateConfig(attempt_timeout=int(work.timeout_s))
    model = get_model("league/league", config=config, memoize=False)

    async def one(item: p.Item) -> int:
        return int((await model.generate(str(item.index))).completion)

    # Its runner starts samples as its connections grow. Here all wait for a connection at once.
    return await in_pool(len(work.items), work, one)


async def run_mlflow(work: Work) -> Outputs:
    """MLflow's limiter `auto` and its retries, in as many workers as its harness would start."""
    from mlflow.environment_variables import MLFLOW_GENAI_EVAL_MAX_RETRIES  # noqa: PLC0415
    from mlflow.genai.evaluation import harness  # noqa: PLC0415
    from mlflow.genai.evaluation.rate_limiter import (  # noqa: PLC0415
        RPSRateLimiter,
        call_with_retry,
    )

    logging.getLogger("mlflow").setLevel(logging.WARNING)  # it tells of each refusal
    multiplier = harness._AIMD_UPPER_MULTIPLIER  # noqa: SLF001 - what its harness passes
    workers = harness._pool_size(harness.AUTO_INITIAL_RPS, multiplier)  # noqa: SLF001
    limiter = RPSRateLimiter(
        harness.AUTO_INITIAL_RPS,
        adaptive=True,
        max_rps_multiplier=multiplier,
        clock=now,
        sleep=sleep,
    )
    retries = MLFLOW_GENAI_EVAL_MAX_RETRIES.get()

    async def one(item: p.Item) -> int:
        def predict() -> int:
            return int(awaited(work.timed(item)))

        done = await in_greenlet(lambda: call_with_retry(predict, limiter, retries, sleep))
        return int(done)

    return await in_pool(workers, work, one)


def phoenix(concurrency: int) -> Peer:
    """Phoenix's executor with its retries."""

    async def run(work: Work) -> Outputs:
        from phoenix.evals import executors  # noqa: PLC0415
        from phoenix.evals.rate_limiters import RateLimitError  # noqa: PLC0415

        replaced: Any = executors
        replaced.time = SimpleNamespace(time=now)
        replaced.tqdm.write = lambda *_, **__: None

        async def call(item: p.Item) -> int:
            try:
                return await work.call(item)
            except p.HTTPStatusError as error:
                if error.response.status_code == 429:
                    raise RateLimitError from error
                raise

        executor = executors.AsyncExecutor(
            call,
            concurrency,
            exit_on_error=False,
            fallback_return_value=None,
            termination_signal=None,
            timeout=int(work.timeout_s),
        )
        outputs, _ = await executor.execute(work.items)
        return list(outputs)

    return run


class Body(io.BytesIO):
    """The body of an answer, as botocore reads it."""

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self.read()


def aws(workers: int, attempts: int) -> Peer:
    """A botocore client in adaptive mode; only the wire below it is replaced."""

    async def run(work: Work) -> Outputs:
        import botocore.session  # noqa: PLC0415
        from botocore import UNSIGNED, endpoint  # noqa: PLC0415
        from botocore.awsrequest import AWSResponse  # noqa: PLC0415
        from botocore.config import Config  # noqa: PLC0415
        from botocore.exceptions import ReadTimeoutError  # noqa: PLC0415
        from botocore.retries import bucket  # noqa: PLC0415

        replaced: Any = SimpleNamespace(time=now, sleep=sleep)
        bucket.time = endpoint.time = replaced
        bucket.threading = SimpleNamespace(Lock=threading.Lock, Condition=Condition)
        url = "http://league"

        def send(request: Any, **_: Any) -> Any:
            item = work.items[int(request.body)]
            status, headers, body = 200, {}, str(item.index)
            try:
                awaited(work.timed(item))
            except p.HTTPStatusError as error:
                status, body = error.response.status_code, "{}"
                headers = dict(error.response.headers)
                if status == 429:
                    headers["x-amzn-errortype"] = "ThrottlingException"
            except TimeoutError:
                raise ReadTimeoutError(endpoint_url=url) from None
            return AWSResponse(url, status, headers, Body(body.encode()))

        client = botocore.session.Session().create_client(
            "bedrock-runtime",
            region_name="us-east-1",
            endpoint_url=url,
            config=Config(
                signature_version=UNSIGNED,
                parameter_validation=False,
                retries={"mode": "adaptive", "total_max_attempts": attempts},
            ),
        )
        client.meta.events.register_last("before-send", send)

        async def one(item: p.Item) -> int:
            def invoke() -> int:
                answer = client.invoke_model(modelId="league", body=str(item.index))
                return int(answer["body"].read())

            return int(await in_greenlet(invoke))

        return await in_pool(workers, work, one)

    return run


def openai(workers: int) -> Peer:
    """The SDK's own retries behind a semaphore."""

    async def run(work: Work) -> Outputs:
        import httpx2  # noqa: PLC0415
        from openai import AsyncOpenAI  # noqa: PLC0415

        class Wire(httpx2.AsyncBaseTransport):  # type: ignore[misc]  # as above
            async def handle_async_request(self, request: Any) -> Any:
                item = work.items[int(json.loads(request.content)["messages"][0]["content"])]
                try:
                    content = str(await work.timed(item))
                except p.HTTPStatusError as error:
                    return httpx2.Response(
                        error.response.status_code, headers=error.response.headers
                    )
                except TimeoutError as error:
                    raise httpx2.ReadTimeout("", request=request) from error
                return httpx2.Response(200, json=completion(content))

        client = AsyncOpenAI(
            base_url=work.url or "http://league/v1",
            api_key="league",
            timeout=work.timeout_s,
            http_client=None if work.url else httpx2.AsyncClient(transport=Wire()),
        )

        async def one(item: p.Item) -> int:
            # What `chat.completions.create` calls, without the types around it: they take 3 ms.
            body = {"model": "league", "messages": [{"role": "user", "content": str(item.index)}]}
            answer: Any = await client.post("/chat/completions", body=body, cast_to=object)
            return int(answer["choices"][0]["message"]["content"])

        return await in_pool(workers, work, one)

    return run


def completion(content: str) -> dict[str, Any]:
    """Return a chat completion as OpenAI answers it."""
    message = {"role": "assistant", "content": content}
    return {
        "id": "league",
        "object": "chat.completion",
        "created": 0,
        "model": "league",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
    }


def tenacity(workers: int) -> Peer:
    """The recipe of OpenAI's cookbook: waits that double at random, 6 attempts, a semaphore."""

    async def run(work: Work) -> Outputs:
        from tenacity import (  # noqa: PLC0415
            AsyncRetrying,
            stop_after_attempt,
            wait_random_exponential,
        )

        async def one(item: p.Item) -> int:
            retrying = AsyncRetrying(
                wait=wait_random_exponential(min=1, max=60), stop=stop_after_attempt(6)
            )
            return int(await retrying(work.timed, item))

        return await in_pool(workers, work, one)

    return run
