"""The engine on Ray. Only a gateway process imports Ray, which can end or hang it."""
