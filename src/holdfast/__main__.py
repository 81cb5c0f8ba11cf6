"""`python -m holdfast` is the command `holdfast`."""

from holdfast.cli.main import main

main()
