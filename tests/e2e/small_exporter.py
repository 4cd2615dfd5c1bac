"""An exporter of the size of a test: it takes its orders from the variables of the real one.

It asks the server for INFO at every scrape, as the user that it was given, and tells a few figures
under the names that the real one uses.
"""

from __future__ import annotations

import os
import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit


def _info() -> dict[str, str]:
    """Log in and ask for INFO."""
    server = urlsplit(os.environ["REDIS_ADDR"])
    address = (server.hostname or "", server.port or 6379)
    user, password = os.environ["REDIS_USER"], os.environ["REDIS_PASSWORD"]
    with socket.create_connection(address, timeout=5) as link, link.makefile("rwb") as lines:
        lines.write(f"AUTH {user} {password}\r\nINFO\r\n".encode())
        lines.flush()
        accepted, length = lines.readline().decode(), lines.readline().decode()
        if not accepted.startswith("+OK") or not length.startswith("$"):
            raise OSError(f"{accepted.strip()} {length.strip()}")
        answer = lines.read(int(length[1:])).decode()
    pairs = (line.partition(":") for line in answer.split("\r\n"))
    return {name: value for name, sign, value in pairs if sign}


def _page() -> str:
    try:
        found = _info()
    except OSError as error:
        sys.stderr.write(f"{error}\n")
        return "redis_up 0\n"
    if "sentinel_masters" in found:
        return f"redis_up 1\nredis_sentinel_masters {found['sentinel_masters']}\n"
    role, clients = found["role"], found["connected_clients"]
    return (
        f'redis_up 1\nredis_instance_info{{role="{role}"}} 1\nredis_connected_clients {clients}\n'
    )


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = _page().encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> None:
    if sys.argv[1:] == ["--version"]:
        sys.stdout.write("small exporter v1.74.0\n")
        return
    host, _, port = os.environ["REDIS_EXPORTER_WEB_LISTEN_ADDRESS"].rpartition(":")
    ThreadingHTTPServer((host, int(port)), _Handler).serve_forever()


if __name__ == "__main__":
    main()
