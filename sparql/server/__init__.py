"""The graph over HTTP."""
