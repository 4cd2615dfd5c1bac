"""One program per client library, doing the same: list into an indexed cache, then follow it."""
