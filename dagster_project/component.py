"""A dg project shows a folder with a component of a few lines of YAML."""

from collections.abc import Sequence
from pathlib import Path

import dagster as dg
from pydantic import Field


class GraphtideComponent(dg.Component, dg.Model, dg.Resolvable):
    """The assets, checks, schedule and sensor of one Graphtide folder, and a `graph` resource to query it."""

    dir: str = Field(description="The folder with the data and `graphtide.toml`; relative to the dg project.")
    prefix: str = Field(default="", description="Goes before every asset key and name.")
    url: str | None = Field(default=None, description="Where `graphtide up` or `serve` listens, for links and queries.")
    every_minutes: int = Field(default=15, description="How often the schedule reconciles every source.")
    automatic: bool = Field(default=False, description="Whether the schedule and the sensor start switched on.")
    owners: Sequence[str] = Field(default=(), description="Owners of the assets: an e-mail address or `team:NAME`.")
    resource: str = Field(default="graph", description="The key of the `Graph` resource; empty for none.")

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        """The definitions of the folder. Raises SettingsError when its settings are wrong."""
        from dagster_project.definitions import definitions
        from dagster_project.resource import Graph

        folder = (Path(context.project_root) / self.dir).resolve()
        made = definitions(
            folder,
            prefix=self.prefix,
            page=self.url,
            every_minutes=self.every_minutes,
            automatic=self.automatic,
            owners=self.owners,
        )
        if not self.resource:
            return made
        graph = Graph(dir=str(folder), url=self.url)
        return dg.Definitions.merge(made, dg.Definitions(resources={self.resource: graph}))
