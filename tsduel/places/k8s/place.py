"""The knobs about pods: cluster, nodes, number, image and disk. No library is needed."""

import re
from collections.abc import Mapping
from typing import Any

from tsduel.core.errors import UserError

KNOBS = ("KUBE_CONTEXT", "NAMESPACE", "NODE_SELECTOR", "STORAGE_CLASS", "IMAGE")
IMAGE = "debian:12-slim"
# Where the pod has its disk.
DIRECTORY = "/tsduel"
MOST_HOSTS = 100
_NAME = r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?"
NAMESPACE = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
STORAGE_CLASS = re.compile(_NAME)
IMAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,300}")
LABEL = re.compile(rf"({_NAME}/)?[A-Za-z0-9]([A-Za-z0-9._-]{{0,61}}[A-Za-z0-9])?")
VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def asked(knobs: Mapping[str, str]) -> dict[str, Any]:
    """Return ``context`` and ``namespace`` ("": those of the kubeconfig), and what pods are made of."""
    if knobs.get("SPARE_HOSTS"):
        raise UserError("SPARE_HOSTS: a pod that is lost gets another one in its place; leave SPARE_HOSTS away")
    for knob, pattern, like in (
        ("NAMESPACE", NAMESPACE, "a namespace: letters, digits and dashes, like bench"),
        ("STORAGE_CLASS", STORAGE_CLASS, "a storage class: see `kubectl get storageclass`"),
        ("IMAGE", IMAGE_NAME, "an image: write it like debian:12-slim"),
    ):
        if knobs.get(knob) and not pattern.fullmatch(knobs[knob]):
            raise UserError(f"{knob}: {knobs[knob]!r} is no name of {like}")
    return {
        "context": knobs.get("KUBE_CONTEXT", ""),
        "namespace": knobs.get("NAMESPACE", ""),
        "node_selector": _labels(knobs.get("NODE_SELECTOR", "")),
        "storage_class": knobs.get("STORAGE_CLASS", ""),
        "image": knobs.get("IMAGE", "") or IMAGE,
        "directory": DIRECTORY,
        "hosts": {f"host{number}": {} for number in range(1, _count(knobs.get("HOSTS", "")) + 1)},
    }


def _labels(text: str) -> dict[str, str]:
    labels = {}
    for word in filter(None, text.replace(" ", ",").split(",")):
        name, separator, value = word.partition("=")
        if not separator or not LABEL.fullmatch(name) or not VALUE.fullmatch(value):
            raise UserError(
                f"NODE_SELECTOR: {word!r} is no label of nodes; write LABEL=VALUE, several with commas between them: "
                "see `kubectl get nodes --show-labels`"
            )
        labels[name] = value
    return labels


def _count(text: str) -> int:
    if not (text or "1").isdecimal() or not 1 <= int(text or 1) <= MOST_HOSTS:
        raise UserError(f"HOSTS: {text!r} is no number of pods that share the blocks, 1 to {MOST_HOSTS}: write HOSTS=4")
    return int(text or 1)
