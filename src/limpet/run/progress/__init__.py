"""How a run stands at this moment, and who is told."""
