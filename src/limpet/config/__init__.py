"""What does an `eval.yml` ask for?"""

from limpet.config.config import Config
from limpet.config.kinds import is_nat_file
from limpet.config.loading import load_config
from limpet.config.schema import json_schema
from limpet.run.api import Prepared

__all__ = ["Config", "Prepared", "is_nat_file", "json_schema", "load_config"]
