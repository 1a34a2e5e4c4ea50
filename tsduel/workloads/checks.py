"""What the host checks in a block: how often in a run, and a title for people. In the order of a report."""

from __future__ import annotations

VARIANT, PAIRED_TYPE, SOLO_TYPE, BLOCK, ROW = "variant", "paired type", "solo type", "block", "row"
"""How often in a block: for each variant, each type of the duel, each type of each closed loop, once, for each row."""

FINISHED = "block_finished"
CHECKS = {
    FINISHED: (VARIANT, "the variant came to the end of the block"),
    "samples_sent": (VARIANT, "samples sent = samples in the data file"),
    "samples_inserted": (VARIANT, "samples accepted by the database = samples in the data file"),
    "samples_stored": (VARIANT, "samples stored by the database = samples in the data file"),
    "samples_ignored": (VARIANT, "no sample ignored"),
    "samples_invalid": (VARIANT, "no sample invalid"),
    "load_exit": (VARIANT, "the loader exited with 0"),
    "load_retries": (VARIANT, "the loader retried nothing"),
    "query_exit": (SOLO_TYPE, "the query client exited with 0"),
    "queries_answered": (SOLO_TYPE, "queries answered = queries asked for"),
    "rows_read": (PAIRED_TYPE, "the database read rows for the queries"),
    "exchanges_answered": (PAIRED_TYPE, "every exchange was answered and compared"),
    "exchanges_same": (PAIRED_TYPE, "every answer has the same series and values from all variants"),
    "exchanges_empty": (PAIRED_TYPE, "no answer is empty"),
    "equal_start": (BLOCK, "all variants started alike into the duel"),
    "server_log": (VARIANT, "no panic and no fatal error in the server's log"),
    "same_process": (VARIANT, "the same server process from start to stop"),
    "listens_on_loopback": (VARIANT, "the server listens on loopback only"),
    "bench_exit": (ROW, "the test binary exited with 0, and failed and skipped nothing"),
    "bench_result": (ROW, "each benchmark printed one result, of as many operations as were asked for"),
    "bench_required": (ROW, "what `require:` names is there and above zero"),
}
