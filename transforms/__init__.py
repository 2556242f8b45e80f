"""Maps records to facts, derives facts by rules, and diffs: pure, no files, network, clock or store."""
