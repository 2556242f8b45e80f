"""A question becomes a query that was checked, and its answer names the records that say so."""
