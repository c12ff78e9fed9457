"""The protocol without I/O: no loop, no clock, no randomness; `now` comes in as a value."""
