"""One folder is one set of definitions: per source `records -> facts -> graph`, by one op that asks the writer."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from dagster_project import checks, folder
from dagster_project.clocks import changes_sensor, reconcile_schedule
from dagster_project.folder import Folder, SourceView
from dagster_project.keys import STAGES, asset_key, graph_key, op_name, rule_key, word
from dagster_project.metadata import counts, derived_by, of_source, query_url, table
from sparql.client import WriterRefused

DESCRIBED = {
    "records": "What the source says, record by record.",
    "facts": "What the records mean: each mapped to RDF and checked alone; a record that fails is held back.",
    "graph": "What of it stands in the graph, committed all together.",
}

TAG = 63
"""The longest value Dagster lets a tag have."""


def definitions(
    dir: Path | str,
    *,
    prefix: str | Sequence[str] = (),
    page: str | None = None,
    every_minutes: int = 15,
    automatic: bool = False,
    owners: Sequence[str] = (),
) -> dg.Definitions:
    """Everything Dagster needs to show and run the folder `dir`; merges into any code location.

    `prefix` goes before every asset key and name. `page` is where the query page answers. With `automatic` the schedule
    and the sensor start switched on. Raises SettingsError when the folder's settings are wrong.
    """
    keys = (prefix,) if isinstance(prefix, str) and prefix else tuple(prefix)
    view = folder.describe(dir, page)
    assets = [_source(view, source, keys, owners) for source in view.sources]
    whole = _whole(view, keys, owners)
    job = dg.define_asset_job(
        "__".join([*map(word, keys), "graphtide_sync"]),
        selection=dg.AssetSelection.assets(*assets, whole),
        description=f"Bring every source of {view.dir.name} in step.",
        executor_def=dg.in_process_executor,
    )
    return dg.Definitions(
        assets=[*assets, whole],
        jobs=[job],
        schedules=[reconcile_schedule(view, keys, job, every_minutes, automatic=automatic)],
        sensors=[changes_sensor(view, keys, job, automatic=automatic)],
    )


def freshness(every: float | None) -> dg.FreshnessPolicy:
    """Three periods of a source (an hour where it has none) without a look are a warning, eight a failure."""
    period = max(every or 0.0, 3600.0)
    return dg.FreshnessPolicy.time_window(
        warn_window=timedelta(seconds=3 * period), fail_window=timedelta(seconds=8 * period)
    )


def data_versions(source: SourceView, report: Mapping[str, Any]) -> dict[str, str]:
    """Records are as new as the source's cursor, facts as that and the mapping, the graph as its commit."""
    cursor = str(report.get("cursor") or f"commit {report.get('commit')}")
    return {
        "records": cursor[:64],
        "facts": hashlib.sha256(json.dumps([cursor, source.version]).encode()).hexdigest()[:16],
        "graph": str(report.get("commit")),
    }


def stage_metadata(
    view: Folder, source: SourceView, stage: str, report: Mapping[str, Any], row: Mapping[str, Any]
) -> dict[str, Any]:
    """What one stage shows of a sync: its own counts, not the others'."""
    # The report of one commit counts what it changed; how many stand refused or held is known to the status.
    shown = counts({**report, **{kind: row[kind] for kind in ("rejected", "held") if row.get(kind) is not None}})
    kept = {
        "records": ("read", "changed", "gone", "commit", "message", "notes"),
        "facts": ("changed", "rejected", "held", "commit"),
        "graph": ("added", "removed", "seconds", "commit"),
    }[stage]
    found: dict[str, Any] = {name: shown[name] for name in kept if name in shown}
    if stage == "records" and row.get("records") is not None:
        found["dagster/row_count"] = dg.MetadataValue.int(int(row["records"]))
    if stage == "graph":
        found["query"] = dg.MetadataValue.url(query_url(view.page, of_source(view.names, source.name)))
    return found


def asset_specs(view: Folder, source: SourceView, prefix: Sequence[str], owners: Sequence[str]) -> list[dg.AssetSpec]:
    """The three assets of one source."""
    found = []
    for stage in STAGES:
        above = STAGES.index(stage) - 1
        found.append(
            dg.AssetSpec(
                asset_key(prefix, source.name, stage),
                deps=[asset_key(prefix, source.name, STAGES[above])] if above >= 0 else [],
                description=f"{DESCRIBED[stage]}\n\nSource `{source.name}` reads `{source.reads}`.",
                group_name=word("_".join([*prefix, source.name])),
                code_version=source.version[:64],
                kinds={source.kind} if stage == "records" else {"rdf"} if stage == "facts" else {"oxigraph"},
                owners=list(owners),
                tags={"graphtide/source": word(source.name)[:TAG], "graphtide/stage": stage},
                metadata={"folder": dg.MetadataValue.path(str(view.dir)), "reads": source.reads},
                freshness_policy=freshness(source.every) if stage == "graph" else None,
            )
        )
    return found


def _source(view: Folder, source: SourceView, prefix: tuple[str, ...], owners: Sequence[str]) -> dg.AssetsDefinition:
    @dg.multi_asset(
        name=op_name(prefix, source.name),
        specs=asset_specs(view, source, prefix, owners),
        check_specs=checks.specs(source, prefix),
        can_subset=False,
        op_tags={"graphtide/source": word(source.name)[:TAG]},
    )
    def sync_source(context: dg.AssetExecutionContext) -> Iterator[Any]:
        yield from _sync(context, view, source, prefix)

    return sync_source


def _sync(
    context: dg.AssetExecutionContext, view: Folder, source: SourceView, prefix: tuple[str, ...]
) -> Iterator[Any]:
    context.log.info(folder.kept_by(view.state) or "No writer runs: this run takes the store itself.")
    try:
        synced = folder.sync(view.dir, source.name, saying(context.log.info))
    except WriterRefused as wrong:
        raise dg.Failure(f"{source.name}: {wrong.message}", metadata={"code": wrong.code}) from wrong
    report, row = synced.report, synced.row
    context.log.info(summary(source.name, report))
    versions = data_versions(source, report)
    if not (report.get("added") or report.get("removed")):
        versions["graph"] = _version_before(context, asset_key(prefix, source.name, "graph")) or versions["graph"]
    rows, facts = folder.sample(view.dir, source.name)
    for stage in STAGES:
        shown = stage_metadata(view, source, stage, report, row)
        if stage == "records" and rows:
            shown["sample"] = table(rows)
        if stage == "facts" and facts:
            shown["sample"] = dg.MetadataValue.md("```\n" + "\n".join(facts) + "\n```")
        yield dg.MaterializeResult(
            asset_key(prefix, source.name, stage), metadata=shown, data_version=dg.DataVersion(versions[stage])
        )
    for outcome in checks.outcomes(source, row, synced.violations):
        if not outcome.passed:
            context.log.warning(f"{source.name}: {outcome.message}")
        yield checks.result(outcome, source, view, prefix, synced.violations)


def _version_before(context: dg.AssetExecutionContext, key: dg.AssetKey) -> str | None:
    # A graph that did not change keeps its version, or everything below it would look out of date.
    found = context.instance.get_latest_materialization_event(key)
    made = found.asset_materialization if found else None
    return (made.tags or {}).get("dagster/data_version") if made else None


def saying(log: Callable[[str], None]) -> folder.Say:
    """Events of the engine as lines of a run's log."""

    def say(event: Mapping[str, Any]) -> None:
        said = {name: value for name, value in event.items() if name != "phase" and value not in (None, "", [])}
        text = event.get("message") or ", ".join(f"{name} {_words(value)}" for name, value in said.items())
        if event.get("phase"):
            text = f"{event['phase']}: {text}"
        log(str(text))

    return say


def _words(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def summary(source: str, report: Mapping[str, Any]) -> str:
    """A report as one line."""
    said = ", ".join(f"{report.get(name) or 0} {name}" for name in ("read", "changed", "gone", "rejected", "held"))
    return (
        f"{source}: {said}; {report.get('added') or 0} facts added, {report.get('removed') or 0} removed"
        f" in {float(report.get('seconds') or 0):.2f} s (commit {report.get('commit')})."
    )


def _whole(view: Folder, prefix: tuple[str, ...], owners: Sequence[str]) -> dg.AssetsDefinition:
    graphs = [asset_key(prefix, source.name, "graph") for source in view.sources]
    rules = [
        dg.AssetSpec(
            rule_key(prefix, rule),
            deps=graphs,
            description=f"What the rule `{rule}` derives from the facts of several records, in the same commit.",
            group_name=word("_".join([*prefix, "whole_graph"])),
            kinds={"rule"},
            owners=list(owners),
        )
        for rule in view.rules
    ]
    whole = dg.AssetSpec(
        graph_key(prefix),
        deps=[*graphs, *(rule.key for rule in rules)],
        description="What all sources and rules say together: the default graph that queries see.",
        group_name=word("_".join([*prefix, "whole_graph"])),
        kinds={"oxigraph", "sparql"},
        owners=list(owners),
        metadata={"query page": dg.MetadataValue.url(view.page)},
    )

    @dg.multi_asset(name="__".join([*map(word, prefix), "whole_graph"]), specs=[*rules, whole], can_subset=False)
    def whole_graph(context: dg.AssetExecutionContext) -> Iterator[Any]:
        found = folder.status(view.dir)
        version = dg.DataVersion(str(found["commit"]))
        for rule in view.rules:
            yield dg.MaterializeResult(rule_key(prefix, rule), metadata=rule_metadata(view, rule), data_version=version)
        yield dg.MaterializeResult(graph_key(prefix), metadata=whole_metadata(view, found), data_version=version)

    return whole_graph


def rule_metadata(view: Folder, rule: str) -> dict[str, Any]:
    """Where to look at what a rule derives."""
    return {"query": dg.MetadataValue.url(query_url(view.page, derived_by(view.names, rule)))}


def whole_metadata(view: Folder, found: Mapping[str, Any]) -> dict[str, Any]:
    """The graph in numbers: one row a source."""
    rows = [
        {
            name: str(row.get(name) if row.get(name) is not None else "")
            for name in ("name", "state", "records", "held", "rejected", "last_seen")
        }
        for row in found["sources"]
    ]
    everything = (
        "SELECT ?class (COUNT(?thing) AS ?things) WHERE {\n  ?thing a ?class\n}\nGROUP BY ?class ORDER BY DESC(?things)"
    )
    return {
        "commit": dg.MetadataValue.int(int(found["commit"])),
        "records": dg.MetadataValue.int(sum(int(row.get("records") or 0) for row in found["sources"])),
        "held": dg.MetadataValue.int(sum(int(row.get("held") or 0) for row in found["sources"])),
        "sources": table(rows) if rows else "none",
        "query": dg.MetadataValue.url(query_url(view.page, everything)),
    }
