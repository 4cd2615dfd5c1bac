"""Mode Standalone: one server. What is its own is here; every other rule is shared."""
