"""A worker's messages are plain, or refused."""

import io
import os
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from limpet.engines.messages import Frames, NotPlainMessageError, frame, packed, unpacked

atoms = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.binary() | st.text()
)
plain = st.recursive(
    atoms,
    lambda parts: st.lists(parts) | st.dictionaries(st.text(), parts) | st.tuples(parts),
    max_leaves=10,
)


@given(st.lists(st.tuples(st.text(), plain), max_size=5), st.integers(1, 50))
def test_messages_arrive_as_they_were_sent_however_the_pipe_cuts_them(messages, piece):
    data = frame(packed(message) for message in messages) * 2
    frames = Frames()
    arrived = [
        message
        for at in range(0, len(data), piece)
        for message in frames.feed(data[at : at + piece])
    ]
    assert arrived == messages * 2


class Hostile:
    def __reduce__(self):
        return os.system, ("touch hostile",)


@pytest.mark.parametrize(
    "data",
    [
        pickle.dumps(("done", Hostile())),
        pickle.dumps(("done", os.system)),
        pickle.dumps(("done", ValueError("x"))),
        pickle.dumps(["done"]),
        b"\x80\x05cos\nsystem\n(S'touch hostile'\ntR.",
        b"no pickle",
        b"",
    ],
)
def test_a_message_that_would_run_code_is_refused(data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotPlainMessageError):
        unpacked(data)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "value", [Hostile(), os.system, ValueError, io.BytesIO(), type("s", (str,), {})()]
)
def test_a_sender_refuses_what_is_not_plain(value):
    with pytest.raises(NotPlainMessageError):
        packed(("done", [value]))
