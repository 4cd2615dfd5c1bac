"""A Kubernetes client: requests, errors, kinds, credentials, discovery and the HTTP transport."""
