"""Queries, each in a worker that is a replica and can be killed."""
