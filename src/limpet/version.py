"""Which version of Limpet is this?"""

VERSION = "0.1.0"
