-- Questions to an account that `slashtag sync` has loaded into DuckDB or PostgreSQL:
--   duckdb clicks.duckdb < warehouse.sql
--   psql postgresql://db.example/clicks < warehouse.sql

-- Clicks of all links by month.
SELECT month, sum(clicks) AS clicks FROM slashtag.clicks_monthly WHERE listed GROUP BY month ORDER BY month;

-- The ten links with the most clicks.
SELECT slashtag, destination, clicks FROM slashtag.top_links WHERE listed ORDER BY clicks DESC, slashtag LIMIT 10;

-- Clicks of each tag in the last 30 days that were over.
SELECT tag, sum(clicks) AS clicks
FROM slashtag.clicks_of_tags
WHERE date > (SELECT max(date) FROM slashtag.clicks_daily WHERE final) - 30
  AND date <= (SELECT max(date) FROM slashtag.clicks_daily WHERE final)
GROUP BY tag
ORDER BY clicks DESC, tag;

-- The ten links that lost the most clicks from one month to the next.
SELECT slashtag, month, clicks, clicks - before AS change
FROM (
    SELECT slashtag, month, clicks, lag(clicks) OVER (PARTITION BY slashtag ORDER BY month) AS before
    FROM slashtag.clicks_monthly
    WHERE listed
) AS months
WHERE before IS NOT NULL
ORDER BY change, slashtag, month
LIMIT 10;

-- Links that were clicked once, and not in the last 10 days.
SELECT slashtag, max(date) AS last_click
FROM slashtag.clicks_daily
WHERE clicks > 0 AND slashtag IN (SELECT slashtag FROM slashtag.links)
GROUP BY slashtag
HAVING max(date) <= (SELECT max(date) FROM slashtag.clicks_daily) - 10
ORDER BY last_click, slashtag;
