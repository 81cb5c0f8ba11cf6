"""No shape of an exception whatsoever breaks the classification."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from limpet.pacing import FailureKind, classify

junk = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=30),
    st.binary(max_size=30),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)


def foreign_error(attributes, headers):
    exc = type("SomeError", (Exception,), {})("what the provider said")
    vars(exc).update(attributes, response=SimpleNamespace(status_code=429, headers=headers))
    return exc


@given(
    st.fixed_dictionaries(
        {},
        optional=dict.fromkeys(
            ("status", "status_code", "code", "type", "body", "headers", "retry_after"), junk
        ),
    ),
    st.dictionaries(
        st.sampled_from(["retry-after", "Retry-After-Ms", "date", "x"]), junk, max_size=4
    ),
)
def test_no_shape_whatsoever_breaks_it_or_makes_it_wait_for_ever(attributes, headers):
    signal = classify(foreign_error(attributes, headers))
    assert signal.kind in FailureKind
    assert signal.retry_after_s is None or 0 <= signal.retry_after_s < float("inf")
