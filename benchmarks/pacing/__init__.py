"""Compare the throttle with an oracle and with its peers, on models of servers, in virtual time."""
