"""What an identity contained, and how it differs from another, for people."""
