"""Search for the counts of every slashtag in few answers about several of them, for per-link tables."""
