"""One HTTP client: connections, proxies, deadlines, replies, what a failure means."""
