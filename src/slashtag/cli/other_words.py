"""Words of other programs and of the trade, given as options or commands, and what they are called here."""

import re
from collections.abc import Sequence
from shlex import quote

from .._internal import is_comparison as is_comparison
from .._internal import is_span

_NOT_IN_API = "the service's API cannot do this: its dashboard can"
#: What to give instead of an option that does not exist, or of a value that an option does not take.
OTHER_WORDS = {
    "--country": "`slashtag stats country GB last-month` counts one country, also --by month, "
    "`stats --by country` all",
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
    "--format": "the name after -o says the format: -o FILE.xlsx is a workbook",
    "--xlsx": "-o FILE.xlsx writes a workbook",
    "links": "`slashtag urls list` lists the links, `slashtag top last-month` those with most clicks",
    "campaigns": "`slashtag tags list` lists the tags, `slashtag top last-month --by tag` counts each",
    "clicks": "`slashtag stats last-month` counts clicks, `slashtag export clicks last-month` writes them",
    "compare": "`stats`, `top` and `report` have --compare, `slashtag diff` compares files",
    "list": "`slashtag urls list` lists the links, `slashtag tags list` the tags",
    "update": "`slashtag urls update KEY --destination URL`, or --from FILE",
    "undo": "`slashtag urls update --from` the file that an update named",
    "--hits": "`slashtag urls list --no-clicks` lists links that were never clicked, "
    "`slashtag top last-month --no-clicks` those without clicks in a span",
    "--by": "`slashtag stats --by` counts countries and the like, also week,tag; `slashtag top last-month "
    "--no-clicks` lists links without clicks",
    "--by link": "`slashtag top` counts each link",
    "create": "`slashtag tags create NAME` creates a tag; links are created in the service's dashboard",
    "--with-zero": "`slashtag top last-month --no-clicks` lists the links without clicks",
    "--weekly": "days are words, as last-quarter; `slashtag stats last-quarter --by week` counts weeks, "
    "--by week,tag those of each tag",
    "urls create": f"{_NOT_IN_API}, or `slashtag api` if you know the endpoint",
    "urls update": "`slashtag urls update KEY --destination URL`, or --from FILE",
    "urls show": "`slashtag urls list --search TEXT` shows links",
    "urls tag": f"{_NOT_IN_API}; statistics by tag then have the link under its other tag",
    "tags rename": f"{_NOT_IN_API}; statistics by tag follow",
    "tags create": "`slashtag tags create NAME` creates one",
    "tags show": "`slashtag stats last-month --tag NAME` counts a tag, `slashtag urls list --tag NAME` lists "
    "its links",
    "--no-tag": "`slashtag urls list --untagged` lists the links without a tag, and `top`, `stats` and "
    "`export clicks` take --untagged",
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
    "--period": "--weekly",
    "--interval": "--weekly",
    "--granularity": "--weekly",
    "--week": "--weekly",
    "--daily": "--weekly",
    "--monthly": "--weekly",
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
    "link": "links",
    "url": "links",
    "campaign": "campaigns",
    "tag": "campaigns",
    "click": "clicks",
    "statistics": "clicks",
    "comparison": "compare",
    "ls": "list",
    "change": "update",
    "revert": "undo",
    "--by slashtag": "--by link",
    "--by links": "--by link",
    "--by url": "--by link",
    "--clicks": "--hits",
    "--zero": "--hits",
    "--unused": "--hits",
    "--zeros": "--with-zero",
    "--idle": "--with-zero",
    "--no-clicks": "--with-zero",
    "--untagged": "--no-tag",
    "--without-tag": "--no-tag",
    "shorten": "urls create",
    **{f"urls {word}": "urls create" for word in ("add", "new", "shorten", "delete", "remove", "rm")},
    **{f"urls {word}": "urls update" for word in ("change", "edit", "set")},
    **{f"urls {word}": "urls show" for word in ("get", "info", "search", "find")},
    **{f"urls update --{word}": "urls tag" for word in ("tag", "tags", "add-tag", "tag-name")},
    **{f"tags {word}": "tags rename" for word in ("update", "edit", "change", "delete", "remove", "merge")},
    **{f"tags {word}": "tags create" for word in ("add", "new")},
    **{f"tags {word}": "tags show" for word in ("get", "info", "stats")},
}
#: What errors of the arguments name.
_NO_COMMAND = re.compile("No such command '(.*?)'")
_EXTRA = re.compile(r"unexpected extra arguments?(?:\(s\))? \((.*)\)")
#: Options that exist, of which a value may be another word.
_OF_VALUES = ("--format", "--by")


def advice(error: object) -> str:
    """Return what to give instead of what an error of the arguments is about; empty where that is unknown."""
    kind, name, text = type(error).__name__, getattr(error, "option_name", ""), str(error)
    path = getattr(getattr(error, "ctx", None), "command_path", "").partition(" ")[2]
    if found := _NO_COMMAND.match(text):
        name = found[1]
    if found or kind == "NoSuchOption":
        return meant_by(f"{path} {name}") or meant_by(name)
    if kind == "BadOptionUsage":
        return "if its value begins with #, put it in quotes"
    if found := _EXTRA.search(text):
        if "://" in found[1]:
            return "give a destination as --destination URL"
        if path == "urls list" and is_span(found[1]):
            return f"`slashtag top {found[1]} --no-clicks` lists the links without clicks in a span"
    opts = getattr(getattr(error, "param", None), "opts", ())
    return "".join(OTHER_WORDS[name] for name in opts if kind == "BadParameter" and name in _OF_VALUES)


def meant_by(word: str) -> str:
    """Return what to give instead of an option or a command; empty where that is unknown."""
    return OTHER_WORDS.get(_SAME.get(word, word), "")


def meant_by_words(words: Sequence[str]) -> str:
    """Return which options are meant by words that stand beside a span; empty where that is unknown."""
    for n, word in enumerate(words):
        if n > 0 and (option := {"by": "--by", "vs": "--compare", "versus": "--compare"}.get(word.lower())):
            return f"did you mean: {' '.join([*words[:n], option, *words[n + 1 :]])}?"
    cuts = ((words[:n], words[n:]) for n in range(len(words) - 1, 0, -1))
    for first, last in cuts:
        for span, others in ((first, last), (last, first)):
            if is_span(" ".join(span)):
                given = quote(" ".join(others))
                if given.isdecimal():
                    return f"for so many links give --limit {given}"
                return (
                    "" if given[:1].isdigit() else f"for a tag give --tag {given}, for a link --keys {given}"
                )
    return ""
