-- Questions to an account that `slashtag sync` has loaded into DuckDB or PostgreSQL:
--   duckdb clicks.duckdb < warehouse.sql
--   psql postgresql://db.example/clicks < warehouse.sql
--
-- Only days with clicks are rows. The service counts clicks by slashtag, which several links may have, on
-- different domains: to join clicks_daily to links would count a row once for each. Links that are gone keep
-- their rows.

-- Clicks of all links by month.
SELECT CAST(date_trunc('month', date) AS date) AS month, CAST(sum(clicks) AS bigint) AS clicks
FROM slashtag.clicks_daily
GROUP BY 1
ORDER BY 1;

-- Clicks of all links on each of the last 30 days, with those that have none.
SELECT CAST(days.day AS date) AS date, CAST(coalesce(sum(clicks), 0) AS bigint) AS clicks
FROM (SELECT max(through) AS today FROM slashtag.loads) AS last
CROSS JOIN LATERAL generate_series(today - INTERVAL '29 days', today, INTERVAL '1 day') AS days(day)
LEFT JOIN slashtag.clicks_daily ON clicks_daily.date = CAST(days.day AS date)
GROUP BY 1
ORDER BY 1;

-- The ten links with the most clicks, with one of the destinations of links that share a slashtag.
SELECT slashtag, min(destination) AS destination, CAST(sum(clicks) AS bigint) AS clicks
FROM slashtag.clicks_daily
JOIN (
    SELECT slashtag, min(destination) AS destination FROM slashtag.links WHERE gone_at IS NULL GROUP BY slashtag
) AS listed USING (slashtag)
GROUP BY slashtag
ORDER BY clicks DESC, slashtag
LIMIT 10;

-- Clicks of each tag in the last 30 days that were over (`sync --by-tag`).
SELECT tag, CAST(sum(clicks) AS bigint) AS clicks
FROM slashtag.clicks_by_tag
WHERE date >= (SELECT max(through) FROM slashtag.loads) - 30
  AND date < (SELECT max(through) FROM slashtag.loads)
GROUP BY tag
ORDER BY clicks DESC, tag;

-- The ten links that lost the most clicks from one month with clicks to the next.
SELECT slashtag, month, clicks, clicks - before AS change
FROM (
    SELECT
        slashtag,
        CAST(date_trunc('month', date) AS date) AS month,
        sum(clicks) AS clicks,
        lag(sum(clicks)) OVER (PARTITION BY slashtag ORDER BY date_trunc('month', date)) AS before
    FROM slashtag.clicks_daily
    GROUP BY slashtag, date_trunc('month', date)
) AS months
WHERE before IS NOT NULL
ORDER BY change, slashtag, month
LIMIT 10;

-- Links that were clicked once, and not in the last 10 days.
SELECT slashtag, max(date) AS last_click
FROM slashtag.clicks_daily
GROUP BY slashtag
HAVING max(date) <= (SELECT max(through) FROM slashtag.loads) - 10
ORDER BY last_click, slashtag;
