"""What does a configuration of the NeMo Agent Toolkit ask for, and what do its files hold?"""

from limpet.integrations.nat.config import NatConfig
from limpet.integrations.nat.flags import Flags
from limpet.integrations.nat.loading import load_nat_config

__all__ = ["Flags", "NatConfig", "load_nat_config"]
