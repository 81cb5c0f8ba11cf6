"""How does a judge compare with people: a sample to label, and what the labels say of it."""
