"""One method an endpoint."""
