"""The session: steps, queues between them, recording, guards, stopping."""
