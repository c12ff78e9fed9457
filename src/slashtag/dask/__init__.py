"""Statistics collected by the workers of a Dask cluster.

    from distributed import Client
    from slashtag.dask import collect

    plan = session.stats.plan(DateRange("2022-01-01", "2024-12-31"), tags=names)
    with Client("tcp://scheduler:8786") as client:
        stats = collect(client, plan)

Needs the extra `dask`, and slashtag in the same version on scheduler and workers. When it helps, and when
not: docs/clusters.md.
"""

from ._collect import collect

__all__ = ["collect"]
