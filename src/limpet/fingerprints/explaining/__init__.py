"""What an identity looked like, and what differs from another, for people."""
