"""The vocabulary, the shapes, and what a fact is. Knows nothing of sources or of where the graph lives."""
