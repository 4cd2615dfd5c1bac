"""Chooses the node of a pod; pure. Begin with `scheduler`."""
