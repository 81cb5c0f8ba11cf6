"""One HTTP client: connections, proxies, deadlines, replies, failures."""
