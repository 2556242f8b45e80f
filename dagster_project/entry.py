"""A Dagster process finds the folder in GRAPHTIDE_DIR and asks for its definitions only when it needs them."""

import os

import dagster as dg


@dg.definitions
def defs() -> dg.Definitions:
    """The definitions of the folder named by GRAPHTIDE_DIR (here, when it is not set)."""
    from dagster_project.definitions import definitions

    page = os.environ.get("GRAPHTIDE_PAGE") or None
    own = definitions(os.environ.get("GRAPHTIDE_DIR", "."), page=page, automatic=True)
    # One step of one process is enough for a run that only asks the writer (a process a step costs 3 s here).
    return dg.Definitions.merge(own, dg.Definitions(executor=dg.in_process_executor))
