"""How does each peer's own controller run a list of calls? One function for each.

Each takes the controller from the peer's own package, with its own defaults, and gives it nothing
but the calls, a limit for the time of one call, and the loop's clock: virtual or real, it is the
same code. Those that sleep in threads (MLflow, botocore) run unchanged in greenlets, where a sleep
is the loop's. The packages are imported by the functions: a run loads one of them.

`league.py` runs them.
"""

import asyncio
import io
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
    return [output if isinstance(output, int) else None for output in outputs]


async def run_inspect(work: Work) -> Outputs:
    """Inspect's adaptive connections and its retries, which never end.

    This is what its `Model.generate` does around a provider, without its records of each call:
    they take 2 ms, and on the bucket of 20/s the figures are the same with them.
    """
    from inspect_ai.model import (  # noqa: PLC0415 - see above
        GenerateConfig,
        ModelAPI,
        RetryDecision,
        get_model,
        modelapi,
    )
    from inspect_ai.model._model import AttemptTimeoutError  # noqa: PLC0415
    from inspect_ai.model._retry import model_retry_config  # noqa: PLC0415
    from inspect_ai.util import _concurrency  # noqa: PLC0415
    from tenacity import AsyncRetrying  # noqa: PLC0415

    _concurrency.time = SimpleNamespace(monotonic=now, time=now)
    _concurrency.init_concurrency()

    @modelapi(name="league")  # type: ignore[untyped-decorator, unused-ignore]  # as below
    class API(ModelAPI):  # type: ignore[misc, unused-ignore]  # not installed with the linters
        async def generate(self, *_: Any, **__: Any) -> Any: ...

        def should_retry(self, ex: Exception) -> Any:
            # As its provider for OpenAI: 429, or the server's fault.
            if isinstance(ex, p.HTTPStatusError):
                refused = ex.response.status_code == 429
                return RetryDecision.rate_limit() if refused else RetryDecision.transient()
            return RetryDecision.no()

    model: Any = get_model("league/league", memoize=False)
    retries = model_retry_config(
        "league", None, None, model.should_retry, model.before_retry, lambda *_: None
    )

    async def attempt(item: p.Item) -> int:
        try:
            return await work.timed(item)
        except TimeoutError as error:
            raise AttemptTimeoutError(int(work.timeout_s)) from error

    async def one(item: p.Item) -> int:
        async with model._connection_concurrency(GenerateConfig()):  # noqa: SLF001
            done: int = await AsyncRetrying(**retries)(attempt, item)
            if not _concurrency._request_had_retry.get():  # noqa: SLF001
                _concurrency._active_controller.get().notify_success()  # noqa: SLF001
            return done

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
                user_agent="league",  # to build its own takes as long as the rest
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
        from openai._models import FinalRequestOptions  # noqa: PLC0415

        client = AsyncOpenAI(
            base_url=work.url or "http://league/v1", api_key="league", timeout=work.timeout_s
        )
        options = FinalRequestOptions(method="post", url=client.base_url.path)
        retries = client.max_retries

        async def post(item: p.Item) -> int:
            body = {"model": "league", "messages": [{"role": "user", "content": str(item.index)}]}
            answer: Any = await client.post("/chat/completions", body=body, cast_to=object)
            return int(answer["choices"][0]["message"]["content"])

        async def call(item: p.Item) -> int:
            # The loop of its `request`, with its decisions and waits. What it does around them
            # takes 4 ms; on the bucket of 20/s the figures are the same with it.
            for taken in range(retries + 1):
                response = None
                try:
                    return await work.timed(item)
                except p.HTTPStatusError as error:
                    told = error.response
                    response = httpx2.Response(told.status_code, headers=told.headers)
                    if taken == retries or not client._should_retry(response):  # noqa: SLF001
                        raise
                except TimeoutError:
                    if taken == retries:
                        raise
                await client._sleep_for_retry(  # noqa: SLF001
                    retries_taken=taken, max_retries=retries, options=options, response=response
                )
            raise AssertionError("the last attempt returns or raises")

        return await in_pool(workers, work, post if work.url else call)

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
