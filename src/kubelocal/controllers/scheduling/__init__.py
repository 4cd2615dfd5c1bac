"""Which node a pod goes to; pure. Begin with `scheduler`."""
