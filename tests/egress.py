"""The way out of a test's network namespace: an HTTP proxy on the namespace's own link, and nowhere else.

It reaches what this machine reaches, by the proxies of this machine's environment where there are some.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import socket
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

IDLE_S = 120.0


class _Handler(BaseHTTPRequestHandler):
    def do_CONNECT(self) -> None:
        """Join two sockets."""
        upstream = urllib.request.getproxies().get("https")
        host, _, port = self.path.rpartition(":")
        try:
            if upstream:
                parts = urlsplit(upstream)
                there = socket.create_connection((parts.hostname, parts.port or 80), timeout=IDLE_S)
                there.sendall(f"CONNECT {self.path} HTTP/1.1\r\nHost: {self.path}\r\n\r\n".encode())
            else:
                there = socket.create_connection((host.strip("[]"), int(port)), timeout=IDLE_S)
                self.send_response(200)
                self.end_headers()
        except OSError as error:
            self.send_error(502, str(error))
            return
        with there:
            _join(self.connection, there)

    def do_GET(self) -> None:
        """Ask for it as this machine would; apt comes this way."""
        if not self.path.startswith("http://"):
            self.send_error(400, "only http")
            return
        wanted = {k: v for k, v in self.headers.items() if k.lower() in {"range", "if-modified-since", "user-agent"}}
        try:
            request = urllib.request.Request(self.path, headers=wanted)  # noqa: S310 - looked at above
            answer: Any = urllib.request.urlopen(request, timeout=IDLE_S)  # noqa: S310 - the same
        except urllib.error.HTTPError as error:
            answer = error
        except (OSError, http.client.HTTPException) as error:
            self.send_error(502, str(error))
            return
        with answer:
            body = answer.read()
        self.send_response(answer.status)
        for name in ("Content-Type", "Last-Modified", "Content-Range"):
            if answer.headers[name]:
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Say nothing: a connection that ends early is its client's business."""


def _join(here: socket.socket, there: socket.socket) -> None:
    other = {here: there, there: here}
    while ready := select.select([here, there], [], [], IDLE_S)[0]:
        for source in ready:
            with contextlib.suppress(OSError):
                if data := source.recv(1 << 16):
                    other[source].sendall(data)
                    continue
            return


def start(address: str) -> ThreadingHTTPServer:
    """Serve on this address and a free port until shutdown()."""
    server = _Server((address, 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server
