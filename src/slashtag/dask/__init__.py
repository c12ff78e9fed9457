"""Statistics collected by the workers of a Dask cluster.

    from distributed import Client
    from slashtag.dask import collect

    plan = session.stats.plan(DateRange("2022-01-01", "2024-12-31"), tags=names)
    with Client("tcp://scheduler:8786") as client:
        stats = collect(client, plan)

Needs the extra `dask`, and slashtag in the same version on scheduler and workers.

More machines help where decoding the answers is the bottleneck, or where each machine has a rate limit of its
own. They do not help where one account's rate limit is the bottleneck, which is the usual case: one process
on one core sends thousands of requests a second. The workers share no limiter: each session learns its share
from the answers.
"""

from ._collect import collect

__all__ = ["collect"]
