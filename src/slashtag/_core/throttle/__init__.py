"""Admission rate of a session: learns the service's limit from its answers, without I/O."""
