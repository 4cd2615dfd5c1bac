"""What kubectl reads about the server: discovery, OpenAPI, and tables.

To add a column of `kubectl get`, change `printers`, which has the columns of each kind; `columns`
has what they are made of, and `pod_status` the word for the state of a pod.

May import: `kubecontroller`, `format`, `storage`, `kinds`.
Called by: `server` and `verbs.read`.
Begin with: `table`.
"""
