"""The engine on Ray. Only a gateway process imports Ray: it can end or hang whoever did."""
