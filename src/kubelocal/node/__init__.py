"""The node agent: pods as groups of real processes on this machine."""
