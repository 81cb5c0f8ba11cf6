"""Which version of Limpet is this? The one place that says it."""

VERSION = "0.1.0.dev0"
