"""The graph on disk, with one writer."""
