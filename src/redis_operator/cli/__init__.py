"""The command line: `redis-operator` for people and for containers. Begin with `main`."""
