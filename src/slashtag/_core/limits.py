"""Limits of the service and of what is in between, as far as they are known. See docs/service.md, Limits."""

#: Slashtags of a request, days of a window, and records of a page.
MAX_KEYS = 100
MAX_WINDOW_DAYS = 32
MAX_PAGESIZE = 500
#: Statistics of a period that ended less than this many seconds before an answer may still change: the
#: service counted before the answer arrived.
SETTLING_SECONDS = 300.0
#: Not documented: many servers and proxies refuse a request line of more than 8 KiB.
MAX_TARGET_BYTES = 8_000

#: Characters.
MAX_SLASHTAG = 100
MAX_PASSWORD = 50
MAX_TAG_NAME = 25
MAX_TAG_DESCRIPTION = 255

#: The document states no bound for integers; this one is safe in every JSON implementation.
MAX_INT = 2**63 - 1
#: An id is any integer that the service gives; as part of a path it is no longer than a slashtag.
MAX_ID = 10**MAX_SLASHTAG - 1
