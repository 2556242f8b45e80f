"""Reads records from files, repositories, APIs and databases. Knows nothing of RDF."""
