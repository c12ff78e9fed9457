"""Search for the counts of every key from few answers about several of them, for per-link tables."""
