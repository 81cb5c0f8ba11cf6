"""What code says, whatever it looks like: syntax, and bytecode where there is none."""
