"""Helpers that tests of more than one folder use; those of one folder are in that folder.

`groups`, `histories`, `kept_failures` and `leftovers` are about the run itself: which tests run
together, how many histories it plays, what it keeps of a failure and what it must not leave behind.
The others make what tests act on: `pair_of_servers` and `s3_server` real servers, `small_cluster` a
cluster in virtual time, `situations` simulated databases.

May import: what is shipped, `redis_testing` and pytest, and no test.
Called by: tests, and their conftest files.
Begin with: `groups` for runs, `pair_of_servers` for servers.
"""
