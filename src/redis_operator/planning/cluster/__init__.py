"""Mode Cluster: shards of the 16384 slots, each a primary and its replicas."""
