"""Whatever a person writes: a label means a value of the score, or nothing at all."""

from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from limpet.run.calibrating.label_values import LabelValues

WORDS = st.text() | st.floats() | st.integers() | st.booleans() | st.none()
LABELS = st.dictionaries(st.text(min_size=1), st.sets(st.floats(0, 1), max_size=2), max_size=4)


@given(LABELS, WORDS)
def test_a_label_is_a_value_in_the_range_or_an_error(by_label, written):
    values = dict(enumerate(value for some in by_label.values() for value in some))
    judged = SimpleNamespace(by_label=by_label, values=values, has_booleans=False)
    meaning = LabelValues(judged, (0.0, 1.0), {}).meaning(written)
    if isinstance(meaning, str):
        assert meaning
    elif values:
        assert 0 <= meaning.value <= 1
    else:
        assert meaning.label in by_label
        assert meaning.value is None


@given(st.dictionaries(st.text(min_size=1), st.floats(0, 1), min_size=1, max_size=4))
def test_the_judges_own_labels_mean_what_its_scores_say(choices):
    judged = SimpleNamespace(by_label={}, values={0: 1.0}, has_booleans=False)
    labels = LabelValues(judged, (0.0, 1.0), choices)
    for label, value in choices.items():
        if label == label.strip():
            assert labels.meaning(label) == (value, label)
