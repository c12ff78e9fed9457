-- Questions to an account that `slashtag sync` has loaded into DuckDB or PostgreSQL:
--   duckdb clicks.duckdb < warehouse.sql
--   psql postgresql://db.example/clicks < warehouse.sql

-- Clicks of all links by month.
SELECT CAST(date_trunc('month', date) AS date) AS month, sum(clicks) AS clicks
FROM slashtag.clicks_daily
WHERE slashtag IN (SELECT slashtag FROM slashtag.links)
GROUP BY 1
ORDER BY 1;

-- The ten links with the most clicks.
SELECT slashtag, min(destination) AS destination, CAST(sum(clicks) AS bigint) AS clicks
FROM slashtag.clicks_daily
JOIN (SELECT slashtag, min(destination) AS destination FROM slashtag.links GROUP BY slashtag) AS listed
    USING (slashtag)
GROUP BY slashtag
ORDER BY clicks DESC, slashtag
LIMIT 10;

-- Clicks of each tag in the last 30 days that were over. Those of a slashtag count for the tags of all its links.
SELECT name AS tag, sum(clicks) AS clicks
FROM slashtag.clicks_daily
JOIN (SELECT DISTINCT slashtag, tag_id FROM slashtag.links) AS tagged USING (slashtag)
JOIN slashtag.tags ON tags.id = tagged.tag_id
WHERE date > (SELECT max(date) FROM slashtag.clicks_daily WHERE final) - 30
  AND date <= (SELECT max(date) FROM slashtag.clicks_daily WHERE final)
GROUP BY tag
ORDER BY clicks DESC, tag;

-- The ten links that lost the most clicks from one month to the next.
SELECT slashtag, month, clicks, clicks - before AS change
FROM (
    SELECT
        slashtag,
        CAST(date_trunc('month', date) AS date) AS month,
        sum(clicks) AS clicks,
        lag(sum(clicks)) OVER (PARTITION BY slashtag ORDER BY date_trunc('month', date)) AS before
    FROM slashtag.clicks_daily
    WHERE slashtag IN (SELECT slashtag FROM slashtag.links)
    GROUP BY slashtag, date_trunc('month', date)
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
