"""How does a judge compare with people? A sample to label, and what the labels show."""
