"""What does an `eval.yml` ask for?"""

from holdfast.config.config import Config, Prepared
from holdfast.config.kinds import is_nat_file
from holdfast.config.loading import load_config
from holdfast.config.schema import json_schema

__all__ = ["Config", "Prepared", "is_nat_file", "json_schema", "load_config"]
