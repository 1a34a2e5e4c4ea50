"""VictoriaMetrics, cluster version: one vmselect, vminsert and vmstorage, of the module's vX-cluster tags or a branch.

Its counters are those of the single-node server; each is in one of the three components.
"""

from tsduel.targets import victoriametrics
from tsduel.targets.database import PROMQL_TYPES, Database, replicas
from tsduel.targets.victoriametrics import LISTENS, NEEDS, program

_SINGLE = victoriametrics.DATABASE.target
_QUERIES = {"path": "/select/.*/api/v1/query(_range)?"}

DATABASE = Database(
    target=_SINGLE.model_copy(
        update={
            "name": "victoriametrics-cluster",
            "adapter": "victoriametrics",
            "refused_flags": (
                *(*LISTENS, "-storageDataPath", "-cacheDataPath", "-storageNode", "-vminsertAddr", "-vmselectAddr"),
                *("-clusternativeListenAddr", "-envflag.enable"),
            ),
            "counters": {
                **{name: counter for name, counter in _SINGLE.counters.items() if name != "queued"},
                "requests": _SINGLE.counters["requests"].model_copy(update={"labels": _QUERIES}),
            },
            "own_paths": {"influx": "/write"},  # below the address of Influx's lines
            # vminsert acknowledges rows before it has sent them on.
            "queues": replicas("vminsert"),
            "quiet": ("pending", "active_merges", "inmemory_parts"),
            "before_merge": ("pending", "active_merges"),
            "ports": dict.fromkeys(replicas("vmstorage"), ("vminsert", "vmselect")),
        }
    ),
    programs={role: program(role) for role in ("vmselect", "vminsert", "vmstorage")},
    query_types=PROMQL_TYPES,
    needs=NEEDS,
    main="",
    has_tenants=True,
    replicated=("vmselect", "vminsert", "vmstorage"),
)
