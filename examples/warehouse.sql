-- Questions to an account that `slashtag sync` has loaded into DuckDB or PostgreSQL:
--   duckdb clicks.duckdb < warehouse.sql
--   psql postgresql://db.example/clicks < warehouse.sql
--
-- The service counts clicks by slashtag, which several links may have, on different domains. A row of
-- clicks_daily has the clicks of all of them: to join it to links would count it once for each. These queries
-- count it once, as `links` are grouped by slashtag first.

-- Clicks of all links by month.
SELECT CAST(date_trunc('month', date) AS date) AS month, sum(clicks) AS clicks
FROM slashtag.clicks_daily
WHERE slashtag IN (SELECT slashtag FROM slashtag.links)
GROUP BY 1
ORDER BY 1;

-- The ten links with the most clicks, with one of the destinations of links that share a slashtag.
SELECT slashtag, min(destination) AS destination, CAST(sum(clicks) AS bigint) AS clicks
FROM slashtag.clicks_daily
JOIN (SELECT slashtag, min(destination) AS destination FROM slashtag.links GROUP BY slashtag) AS listed
    USING (slashtag)
GROUP BY slashtag
ORDER BY clicks DESC, slashtag
LIMIT 10;

-- Clicks of each tag in the last 30 days that were over. Slashtags that links of other tags have too, or links
-- without a tag, are in a row of their own: clicks_by_tag (`sync --by-tag`) has all clicks of each tag.
SELECT CASE WHEN is_shared THEN '(shared with other tags)' ELSE name END AS tag, sum(clicks) AS clicks
FROM slashtag.clicks_daily
JOIN (
    SELECT slashtag, max(tag_id) AS tag_id, count(DISTINCT coalesce(tag_id, -1)) > 1 AS is_shared
    FROM slashtag.links
    GROUP BY slashtag
) AS tagged USING (slashtag)
LEFT JOIN slashtag.tags ON tags.id = tagged.tag_id
WHERE (is_shared OR name IS NOT NULL)
  AND date > (SELECT max(date) FROM slashtag.clicks_daily WHERE final) - 30
  AND date <= (SELECT max(date) FROM slashtag.clicks_daily WHERE final)
GROUP BY 1
ORDER BY clicks DESC, 1;

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
