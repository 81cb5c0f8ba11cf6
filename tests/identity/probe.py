"""Print the identity of something in a small project: `probe.py app:answer [arguments]`."""

import importlib
import json
import re
import sys

from limpet.fingerprints.identity import identity_of

_SECRET = re.compile(r"(?i)(api_?key|secret|passw(or)?d|token)$")


def main() -> None:
    entry, *arguments = sys.argv[1:]
    sys.argv = ["app.py", *arguments]
    sys.path.insert(0, ".")
    module, _, name = entry.partition(":")
    thing = importlib.import_module(module)
    for part in name.split("."):
        thing = getattr(thing, part)
    if name == "build":  # a factory
        thing = thing()
    found = identity_of(thing, is_secret=lambda one: bool(_SECRET.search(one)))
    told = {"digest": found.digest, "parts": dict(found.parts), "left_out": dict(found.left_out)}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
