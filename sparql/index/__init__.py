"""What is derived from the graph and kept beside it, each at a commit of the log."""
