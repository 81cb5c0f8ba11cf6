"""Libraries that are slow to import, for tests that need them: imported when they are used."""

import importlib


class Later:
    """Stands for a module. Every worker imports every test; few run those that need it."""

    def __init__(self, name):
        self._name = name

    def __getattr__(self, name):
        if name.startswith("_"):  # pytest looks at everything that a test's module has
            raise AttributeError(name)
        return getattr(importlib.import_module(self._name), name)
