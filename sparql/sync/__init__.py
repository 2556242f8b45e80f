"""Makes the graph say what the records say, and nothing more."""
