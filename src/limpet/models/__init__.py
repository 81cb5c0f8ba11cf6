"""Models that workflows and judges ask."""

from limpet.models.protocol import Message, Model, Reply

__all__ = ["Message", "Model", "Reply"]
