"""How many tokens did calls use, whatever their client calls them?"""

from collections.abc import Mapping
from functools import lru_cache

from limpet.pacing.limits import number

LEARN = 0.05
"""Weight of a call in the mean."""
MOST_TOKENS = 1e9
"""More than this in a call is not believed."""

# Lower case, without separators: promptTokenCount and prompt_token_count are the same.
_NAMES = {
    "tokens": ("totaltokens", "totaltokencount", "tokens"),
    "input-tokens": ("prompttokens", "inputtokens", "prompttokencount", "promptevalcount"),
    "output-tokens": ("completiontokens", "outputtokens", "candidatestokencount", "evalcount"),
}


def tokens_in(usage: object) -> dict[str, float]:
    """Return the tokens that a call used, under the names that rate-limit headers use.

    Understands the usage of OpenAI, Anthropic, Gemini, Bedrock, Ollama and those that follow them.
    """
    if not isinstance(usage, Mapping):
        return {}
    plain = {_plain(str(name)): number(amount) for name, amount in usage.items()}
    found: dict[str, float] = {}
    for dimension, names in _NAMES.items():
        for name in names:
            if (amount := plain.get(name)) is not None:
                found[dimension] = min(amount, MOST_TOKENS)
                break
    parts = found.get("input-tokens", 0.0) + found.get("output-tokens", 0.0)
    if parts:
        found.setdefault("tokens", parts)
    return found


@lru_cache(maxsize=64)
def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


class Usage:
    """The mean of what calls used, by dimension.

    Attributes:
        mean: The tokens of a call; a dimension without any usage is missing.
    """

    def __init__(self) -> None:
        self.mean: dict[str, float] = {}
        self._calls = 0

    def add(self, used: Mapping[str, float]) -> None:
        """Record what a call used."""
        self._calls += bool(used)
        for name, amount in used.items():
            mean = self.mean.get(name, amount)
            self.mean[name] = mean + max(LEARN, 1 / self._calls) * (amount - mean)
