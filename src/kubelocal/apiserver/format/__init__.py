"""Bodies of requests and responses: JSON, YAML and protobuf, and decoding errors.

`protobuf` reads what typed commands of kubectl send, `yaml_text` what people write; `field_types`
checks that values have the types of their fields.

May import: `kubecontroller`, `custom`, `storage`, `kinds`.
Called by: `server`, `http`, `verbs`, `apply` and `describe`.
Begin with: `bodies`.
"""
