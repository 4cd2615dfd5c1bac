"""The shell around planning: observes one database, asks planning, executes the plan, reports.

`observe` reads and decides nothing; `planning.plan` decides and touches nothing; `execute` touches
and decides nothing; `reconcile` joins the three for one key and `wiring` runs it on the runtime.
Packages: `servers` (questions to and actions on Redis and Sentinel), `objects` (the same for
Kubernetes objects), `backups` (controllers of backups, schedules and restores), `admission`
(webhooks), `metrics`. `redis_failovers` is the controller of the kind RedisFailover.

May import: `planning`, `manifests`, `translation`, `api`, `redis`, `backup` and `kubecontroller`.
Called by: `cli`, which runs `main`; `install.remover` ends databases by it.
Begin with: `reconcile`.
"""
