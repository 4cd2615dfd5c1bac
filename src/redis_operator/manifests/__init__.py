"""From a `Redis` to the Kubernetes objects that run it. Pure: same input, same bytes.

Begin with `build(redis, facts)`. Nothing here reads a clock, a cluster or a random number:
passwords, images and versions are facts that the caller passes in. It may import `api` and `redis`;
called by `operator`.
"""
