"""Views over the tables of clicks, created once."""

from __future__ import annotations

import dlt

#: Name and SQL of each view; `{dataset}` is the schema that the tables are in. `listed` is false for a
#: slashtag that no link has any more.
VIEWS = {
    "clicks_monthly": """
        SELECT slashtag, CAST(date_trunc('month', date) AS date) AS month,
            CAST(sum(clicks) AS bigint) AS clicks,
            slashtag IN (SELECT slashtag FROM {dataset}.links) AS listed
        FROM {dataset}.clicks_daily GROUP BY 1, 2
    """,
    "clicks_of_tags": """
        SELECT name AS tag, date, CAST(sum(clicks) AS bigint) AS clicks
        FROM {dataset}.clicks_daily
        JOIN (SELECT DISTINCT slashtag, tag_id FROM {dataset}.links) AS tagged USING (slashtag)
        JOIN {dataset}.tags ON tags.id = tagged.tag_id
        GROUP BY 1, 2
    """,
    "top_links": """
        SELECT slashtag, min(destination) AS destination, CAST(sum(clicks) AS bigint) AS clicks,
            count(listed) > 0 AS listed
        FROM {dataset}.clicks_daily
        LEFT JOIN (
            SELECT slashtag, min(destination) AS destination, 1 AS listed FROM {dataset}.links GROUP BY 1
        ) AS known
        USING (slashtag)
        GROUP BY 1
        ORDER BY clicks DESC
    """,
}


def create_views(pipeline: dlt.Pipeline) -> list[str]:
    """Create the views missing in DuckDB or PostgreSQL and return their names; elsewhere do nothing.

    Existing views stay as they are, even if somebody has changed them.
    """
    if pipeline.destination.destination_name not in ("duckdb", "postgres"):
        return []
    made: list[str] = []
    with pipeline.sql_client() as client:
        dataset = client.fully_qualified_dataset_name()
        found = client.execute_sql(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = %s", client.dataset_name
        )
        tables = {name for (name,) in found or ()}
        for name, query in VIEWS.items():
            if name not in tables and {"clicks_daily", "links", "tags"} <= tables:
                client.execute_sql(f"CREATE VIEW {dataset}.{name} AS {query.format(dataset=dataset)}")
                made.append(name)
    return made
