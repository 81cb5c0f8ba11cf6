"""What is written of a record that holds secrets, and how does its line say so?"""

from collections.abc import Sequence
from typing import Any

from limpet.fingerprints.keys import digest
from limpet.json_values import NotPlainError, kept_form, plain_size
from limpet.secrets.masking import Mask

MASKED, ORIGINAL = "masked", "output"
"""Our facts about such a line: how many secrets it held, and the digest of what was returned. That
digest stands in every line of the workflow: it is how the scores of an answer are found."""


def masked_record(
    mask: Mask, record: dict[str, Any], returned: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a record without secrets, and what its line says of that: nothing if it had none.

    Args:
        mask: Which secrets.
        record: The record.
        returned: The fields that came out of a step. The others are the dataset's, and stay.
    """
    fields = {name: record[name] for name in returned if name in record}
    if not mask or not fields:
        return record, {}
    try:
        plain = fields if plain_size(fields) is not None else kept_form(fields)
        masked = {name: mask.data(value) for name, value in plain.items()}
        found = sum(count for _, count in masked.values())
        facts = {MASKED: found, ORIGINAL: digest(*plain.values())} if found else {}
    except (NotPlainError, RecursionError):
        return record, {}  # it is not written as it is: what is shown of it is masked by the column
    if not found:
        return record, {}
    return {**record, **{name: value for name, (value, _) in masked.items()}}, facts
