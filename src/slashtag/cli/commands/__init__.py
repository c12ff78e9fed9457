"""The commands that ask the service, one file a resource."""
