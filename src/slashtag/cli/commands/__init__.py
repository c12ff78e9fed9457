"""The commands, one file each: to add one, write its file and enter it here."""

#: Name of a command or a group of commands -> the function or `typer.Typer` in `commands/<name>.py`, and its
#: line in `slashtag --help`, which is printed without importing the file.
COMMANDS = {
    "urls": ("app", "Short URLs of the account."),
    "tags": ("app", "Tags of the account."),
    "stats": ("app", "Click statistics, exact for any number of links and days."),
    "top": ("top", "The links with most clicks of a span, and how they changed."),
    "export": ("app", "Links, tags and clicks into files, resumable."),
    "diff": ("diff", "What differs between two listings or two exports."),
    "sync": ("sync", "Load links, tags and clicks into a database or warehouse, incrementally."),
    "report": ("report", "Show the clicks of a span on one page, or as a picture."),
    "doctor": ("diagnose", "Find out how the service behaves, and which options to use."),
    "login": ("login", "Save credentials for later commands."),
    "demo": ("demo", "Run the main job on a sandbox and check every number."),
    "sandbox": ("sandbox", "Serve a made-up account on this machine, to try things on."),
}
