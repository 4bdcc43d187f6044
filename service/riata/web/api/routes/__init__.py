"""The routes of the service: a module per resource, each with its handlers, its schemas and its table of routes."""
