"""HTTP and websockets: from bytes to calls and back.

`listener` accepts connections, `connection` is one of them, `wire` parses requests without doing
any I/O, `streams` is exec and logs over `websocket` and `channels`.

May import: `kubecontroller`, `server`, `access`, `format`, `objects`, `storage`.
Called by: `daemon`.
Begin with: `connection`.
"""
