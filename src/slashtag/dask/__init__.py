"""Statistics from many processes or machines, on the workers of a Dask cluster.

    from distributed import Client
    from slashtag.dask import collect

    plan = session.stats.plan(DateRange("2022-01-01", "2024-12-31"), tags=names)
    with Client("tcp://scheduler:8786") as client:
        stats = collect(client, plan)

Needs the extra `dask`, and slashtag in the same version on scheduler and workers.

More machines help where processors are the bottleneck, as in tables for each slashtag whose answers are
decoded and written by the million, or where each machine has a limit of its own: other accounts, other
addresses. They do not help where one account's rate limit is the bottleneck, which is the usual case: one
process on one core sends thousands of requests a second. There is no limiter between the workers: each
session learns its share from the answers.
"""

from ._collect import collect
from ._export import Written, export_clicks

__all__ = ["Written", "collect", "export_clicks"]
