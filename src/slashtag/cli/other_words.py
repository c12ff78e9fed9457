"""Words of other programs and of the trade that are given as options, and what they are called here."""

#: What to give instead of an option that does not exist, or of a value that an option does not take.
OTHER_WORDS = {
    "--country": "`slashtag stats country GB last-month` counts one country, `stats --by country` all",
    "--tag": "`slashtag urls list --tag NAME` lists the links of a tag, and `stats`, `top`, `report` and "
    "`export clicks` take it",
    "--from": "give the days as words: 2024-06-01 2024-06-30, or last-month",
    "--since": "give the days as words: 2024-06-01..today, or 30d",
    "--group-by": "it is --by, as in `slashtag stats last-month --by country`",
    "--sort": "`slashtag top` has --by clicks, growth or decline, `slashtag urls list` has --orderby",
    "--browser": "`slashtag stats last-month --by browser` counts every browser",
    "--device": "`slashtag stats last-month --by device` counts every device",
    "--platform": "`slashtag stats last-month --by platform` counts every platform",
    "--referrer": "`slashtag stats last-month --by referrer` counts every referrer",
    "--link": "links are selected by --keys A,B, --keys-file FILE or --tag NAME",
    "--filter": "links are selected by --keys A,B, --keys-file FILE or --tag NAME",
    "--previous": "it is --compare previous, or --compare last-year",
    "--top": "`slashtag top` has --limit N",
    "--limit": "`slashtag top last-month --limit N` shows the first N links",
    "--out": "it is -o FILE, its name in .xlsx, .csv, .jsonl or .parquet",
    "--format": "-o FILE.xlsx writes a workbook, --excel a CSV file for Excel",
    "--xlsx": "-o FILE.xlsx writes a workbook",
    "--no-tag": "`slashtag urls list --untagged` lists the links without a tag",
}
_SAME = {
    "--to": "--from",
    "--start": "--from",
    "--end": "--from",
    "--date": "--from",
    "--dates": "--from",
    "--start-date": "--from",
    "--end-date": "--from",
    "--range": "--from",
    "--period": "--from",
    "--span": "--from",
    "--month": "--from",
    "--last": "--since",
    "--days": "--since",
    "--until": "--since",
    "--group": "--group-by",
    "--groupby": "--group-by",
    "--breakdown": "--group-by",
    "--dimension": "--group-by",
    "--order": "--sort",
    "--sort-by": "--sort",
    "--order-by": "--sort",
    "--countries": "--country",
    "--tags": "--tag",
    "--campaign": "--tag",
    "--links": "--link",
    "--url": "--link",
    "--key": "--link",
    "--slashtag": "--link",
    "--os": "--platform",
    "--compare-to": "--previous",
    "--versus": "--previous",
    "--vs": "--previous",
    "--yoy": "--previous",
    "-n": "--top",
    "--count": "--top",
    "--file": "--out",
    "--output": "--out",
    "--export": "--out",
    "--csv": "--format",
    "--untagged": "--no-tag",
    "--without-tag": "--no-tag",
}


def advice(error: object) -> str:
    """Return what to give instead of what an error of the arguments is about; empty where that is unknown."""
    kind, name = type(error).__name__, getattr(error, "option_name", "")
    if kind == "NoSuchOption":
        return OTHER_WORDS.get(_SAME.get(name, name), "")
    if kind == "BadOptionUsage":
        return f"a value that begins with # needs quotes, as in {name} '#0a7f5a'"
    opts = getattr(getattr(error, "param", None), "opts", ())
    return OTHER_WORDS["--format"] if kind == "BadParameter" and "--format" in opts else ""
