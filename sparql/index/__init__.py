"""What is derived from the graph and kept beside it, each at a commit of the log."""

from __future__ import annotations

from sparql.index.following import Follower


def followers() -> list[Follower]:
    """All that is kept: a new index is added here."""
    from sparql.index.profile import Profile
    from sparql.index.search import Search
    from sparql.index.statistics import Statistics

    return [Statistics(), Profile(), Search()]
