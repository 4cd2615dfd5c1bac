"""One pod: its containers, their restarts and probes, and its status.

Called by `agent`; begin with `runner`, then `container`.
"""
