"""What requests, listings, sums cost, beside goals and other clients: `python -m benchmarks`."""
