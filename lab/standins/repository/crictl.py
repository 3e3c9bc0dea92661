#!/usr/bin/python3 -I
"""Simulates crictl's command line; it calls the real CRI of a real containerd.

It supports runp, create, start, exec -s and rmp, and only the fields in FIELDS of their files.
"""

import json
import sys
from typing import Any

import grpc  # type: ignore[import-untyped]  # Debian's python3-grpcio, on the node alone

VERSION = "@VERSION@"
SOCKET = "unix:///run/containerd/containerd.sock"
# Field numbers from Kubernetes' cri-api, runtime/v1/api.proto.
METADATA = {"name": 1, "uid": 2, "namespace": 3}
NAMESPACES = {"network": 1}
POD = {
    "metadata": (1, METADATA),
    "linux": (8, {"security_context": (2, {"namespace_options": (1, NAMESPACES)})}),
}
CONTAINER = {
    "metadata": (1, METADATA),
    "image": (2, {"image": 1}),
    "command": 3,
    "devices": (8, {"container_path": 1, "host_path": 2, "permissions": 3}),
    "CDI_devices": (17, {"name": 1}),
}


def varint(number: int) -> bytes:
    """Encode a number for Protocol Buffers."""
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def field(number: int, value: Any) -> bytes:
    """Encode one field: a number, or text or a message with its length."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    content = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(content)) + content


def message(fields: dict[str, Any], content: dict[str, Any]) -> bytes:
    """Encode a message; an unknown field is an error, as in the real program."""
    out = b""
    for name, value in content.items():
        known = fields[name]
        number, inner = known if isinstance(known, tuple) else (known, None)
        for one in value if isinstance(value, list) else [value]:
            out += field(number, message(inner, one) if inner else one)
    return out


def fields_of(data: bytes) -> dict[int, Any]:
    """Decode the fields of an answer by number: numbers, texts and bytes only."""
    found: dict[int, Any] = {}
    at = 0

    def number() -> int:
        nonlocal at
        shift = value = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        key = number()
        size = number()
        if key & 7 == 2:
            found[key >> 3] = data[at : at + size]
            at += size
        else:
            found[key >> 3] = size
    return found


def call(method: str, request: bytes) -> dict[int, Any]:
    """Call a CRI method of containerd."""
    with grpc.insecure_channel(SOCKET) as channel:
        ask = channel.unary_unary(f"/runtime.v1.RuntimeService/{method}")
        try:
            return fields_of(ask(request, timeout=10))
        except grpc.RpcError as error:
            sys.exit(f"crictl: {method}: {error.details()}")


def read(path: str) -> dict[str, Any]:
    """Read a file given on the command line."""
    with open(path) as file:
        content: dict[str, Any] = json.load(file)
    return content


def main() -> None:
    """Run one command."""
    arguments = sys.argv[1:]
    if arguments[:2] == ["--runtime-endpoint", SOCKET]:
        del arguments[:2]
    verb, *words = arguments or ["--version"]
    if verb == "--version":
        print(f"crictl version v{VERSION}")
    elif verb == "runp":
        print(call("RunPodSandbox", field(1, message(POD, read(words[0]))))[1].decode())
    elif verb == "create":
        pod, container, sandbox = words
        request = field(1, pod) + field(2, message(CONTAINER, read(container)))
        answer = call("CreateContainer", request + field(3, message(POD, read(sandbox))))
        print(answer[1].decode())
    elif verb == "start":
        call("StartContainer", field(1, words[0]))
        print(words[0])
    elif verb == "exec" and words[0] == "-s":
        answer = call("ExecSync", b"".join([field(1, words[1]), *(field(2, w) for w in words[2:])]))
        sys.stdout.write(answer.get(1, b"").decode())
        sys.stderr.write(answer.get(2, b"").decode())
        sys.exit(answer.get(3, 0))
    elif verb == "rmp" and words[0] == "-f":
        call("StopPodSandbox", field(1, words[1]))
        call("RemovePodSandbox", field(1, words[1]))
        print(f"Removed sandbox {words[1]}")
    else:
        sys.exit(f"crictl (simulated): unsupported command: {verb} {' '.join(words)}")


if __name__ == "__main__":
    main()
