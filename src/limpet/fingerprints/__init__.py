"""What a function, a value, a file, a call depends on."""
