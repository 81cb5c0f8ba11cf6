"""Whatever it is told, the target stays within its bounds."""

import asyncio

import virtual_time
from hypothesis import given
from hypothesis import strategies as st

from limpet.executors import ConcurrencyController

news = st.lists(
    st.tuples(
        st.sampled_from(["record_success", "record_timeout", "record_error"]), st.floats(0, 30)
    ),
    max_size=100,
)


@given(news, st.integers(1, 50), st.floats(0.1, 100), st.floats(0, 5), st.floats(0, 1))
def test_the_target_is_always_within_one_and_the_maximum(story, most, first, step, ratio):
    async def main():
        controller = ConcurrencyController(
            max_concurrency=most, initial_target=first, increase_step=step, decrease_ratio=ratio
        )
        heard = [controller.target_concurrency]
        controller.subscribe(lambda: heard.append(controller.target_concurrency))
        for what, seconds in story:
            await asyncio.sleep(seconds)
            before = controller.target_concurrency
            if what == "record_success":
                controller.record_success(seconds)
            else:
                getattr(controller, what)()
            assert 1 <= controller.target_concurrency <= most
            if controller.target_concurrency != before:
                assert heard[-1] == controller.target_concurrency

    virtual_time.run(main())
