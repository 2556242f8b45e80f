"""The graph: its store, its sync, its queries and its server. Knows nothing of Dagster."""
