"""Shows the pipelines in Dagster: assets, checks, sensors and the reporter. No triples, no loops."""
