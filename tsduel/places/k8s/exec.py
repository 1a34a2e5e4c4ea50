"""Runs a command in a pod, as ssh does on a machine: python -m tsduel.places.k8s.exec CONTEXT NAMESPACE POD WORD...

Its input, output and exit code are those of the command; 255 is the exit code for no connection. Input is a file or
is read whole first: the protocol of older API servers cannot tell a command that its input has ended.
"""

import json
import os
import signal
import stat
import sys
import time
from contextlib import suppress
from typing import IO, Any

import websocket
from kubernetes.client import ApiException
from kubernetes.stream import ws_client

from tsduel.core.errors import UserError
from tsduel.places.k8s import manifests
from tsduel.places.k8s.cluster import PODS, Cluster
from tsduel.places.ssh.ssh import NO_CONNECTION, REFUSED

NO_USE = (401, 403)
STDIN, STDOUT, STDERR, STATUS = 0, 1, 2, 3
CHUNK = 1 << 16
CONNECT_S = 20.0
# Without an answer to several pings the connection is broken.
PING_S, SILENCE_S = 5.0, 20.0
# A shell, so that a missing program is its exit code 127 and no error of the kubelet.
PLAIN = ("sh", "-c", 'exec "$@"', "sh")
# What a command leaves of its input is read all the same: else the kubelet waits for ever, and says no exit code.
FED = ("sh", "-c", 'head -c "$0" | { "$@"; code=$?; cat >/dev/null; exit $code; }')
# A command that has had all its input is done, or says something, within this time.
DONE_S = 300.0


def main(context: str, namespace: str, pod: str, *words: str) -> int:
    """Run a command and return its exit code."""
    feed, size = _input()
    command = [*FED, str(size), *words] if size else [*PLAIN, *words]
    query = [("command", word) for word in command]
    query += [("container", manifests.CONTAINER)]  # there may be others, which the namespace adds
    query += [(name, "true") for name in ("stdout", "stderr", *(["stdin"] if size else []))]
    cluster = Cluster(context, namespace)
    path = f"{PODS.format(namespace)}/{pod}/exec"
    method, url, headers, *_ = cluster.signed("GET", path, query)
    websocket.setdefaulttimeout(CONNECT_S)
    try:
        socket = ws_client.websocket_call(
            cluster.api.configuration, method, url, headers=headers, binary=True, capture_all=False,
            _preload_content=False,
        ).sock  # fmt: skip
    except ApiException as error:
        raise UserError(_refusal(cluster, str(error.reason))) from None
    return _carry(socket, feed, size)


def _refusal(cluster: Cluster, reason: str) -> str:
    """Return the sentence for a handshake that failed: `Handshake status 404 Not Found -+-+- HEADERS -+-+- BODY`."""
    status, _, rest = reason.removeprefix("Handshake status ").partition(" ")
    body = rest.rpartition("-+-+- ")[2]
    with suppress(ValueError, SyntaxError):
        body = json.loads(body.removeprefix("b'").removesuffix("'").encode().decode("unicode_escape"))["message"]
    code = int(status) if status.isdecimal() else 0
    return (REFUSED if code in NO_USE else "") + cluster.refusal(code, body or reason)


def _input() -> tuple[IO[bytes], int]:
    """Return our input, and how many bytes it has."""
    stream, status = sys.stdin.buffer, os.fstat(0)
    if stat.S_ISREG(status.st_mode):
        return stream, status.st_size - stream.tell()
    if stat.S_ISCHR(status.st_mode):  # /dev/null, or a terminal
        return stream, 0
    whole = os.memfd_create("input")
    with os.fdopen(whole, "w+b", closefd=False) as copy:
        while chunk := stream.read(CHUNK):
            copy.write(chunk)
    os.lseek(whole, 0, os.SEEK_SET)
    return os.fdopen(whole, "rb"), os.fstat(whole).st_size


def _carry(socket: Any, feed: IO[bytes], left: int) -> int:
    """Carry bytes there and back until the command ends; return its exit code."""
    fed = left > 0
    socket.settimeout(SILENCE_S)
    with suppress(OSError, websocket.WebSocketException):  # a command may end before it has read all
        while left and (chunk := feed.read(min(CHUNK, left))):
            socket.send_binary(bytes([STDIN]) + chunk)
            left -= len(chunk)
    heard = sent = time.monotonic()
    socket.settimeout(PING_S)
    while True:
        try:
            opcode, frame = socket.recv_data_frame(control_frame=True)
        except websocket.WebSocketTimeoutException:
            now = time.monotonic()
            if now - heard > SILENCE_S or (fed and now - sent > DONE_S):
                raise UserError(f"no answer for {now - min(heard, sent):.0f} s") from None
            socket.ping()
            continue
        heard = time.monotonic()
        if opcode == websocket.ABNF.OPCODE_CLOSE:
            raise UserError("the connection was closed before the command had ended")
        if opcode not in {websocket.ABNF.OPCODE_BINARY, websocket.ABNF.OPCODE_TEXT} or not frame.data:
            continue
        channel, data = frame.data[0], frame.data[1:]
        if channel == STATUS:
            return _exit_code(json.loads(data))
        if channel in {STDOUT, STDERR}:
            _write(channel, data)


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def _exit_code(status: dict[str, Any]) -> int:
    if status.get("status") == "Success":
        return 0
    for cause in status.get("details", {}).get("causes", []):
        if cause.get("reason") == "ExitCode":
            return int(cause["message"])
    # The pod or its container is not there any more, or its node does not answer.
    raise UserError(str(status.get("message") or status))


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        code = main(*sys.argv[1:])
    except (UserError, OSError, websocket.WebSocketException) as error:
        sys.stderr.write(f"{' '.join(str(error).split()) or type(error).__name__}\n")
        code = NO_CONNECTION
    sys.exit(code)
