"""The status of a database: conditions, inventory, losses and events. Pure.

`status` computes all of it from what was observed and decided; `conditions` has the conditions,
`degradations` the reasons why a database is degraded, `announcements` the events.

May import: `api`, `common`, `redis.slots` and `kubecontroller.custom`.
Called by: `operator`, by a pass and by its controllers; `planning.backups`; rules that report a
    degradation.
Begin with: `status`.
"""
