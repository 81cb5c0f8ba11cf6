"""What does an `eval.yml` ask for?"""

from holdfast.config.config import Config, Prepared
from holdfast.config.loading import load_config
from holdfast.config.schema import json_schema

__all__ = ["Config", "Prepared", "json_schema", "load_config"]
