"""What must not be written, and how it is masked."""
