"""`python -m limpet` is the command `limpet`."""

from limpet.cli.main import main

main()
