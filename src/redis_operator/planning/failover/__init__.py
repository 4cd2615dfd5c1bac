"""Mode Failover: one primary, its replicas, and sentinels that replace it when nobody else does."""
