"""The host's checks of a block, each with its title, in the order of a report."""

FINISHED = "block_finished"
FOUND = "bench_found"
"""Made by the warm-up block of Go benchmarks; its failures count although no figure of that block does."""
CHECKS = {
    FINISHED: "the variant came to the end of the block",
    "upgrade_start": "the variant starts on the data that the baseline has left",
    "samples_sent": "samples sent = samples in the data file",
    "samples_inserted": "samples accepted by the database = samples in the data file",
    "samples_stored": "samples stored by the database = samples in the data file",
    "samples_ignored": "no sample ignored",
    "samples_invalid": "no sample invalid",
    "load_exit": "the loader exited with 0",
    "load_retries": "the loader retried nothing",
    "query_exit": "the query client exited with 0",
    "queries_answered": "queries answered = queries asked for",
    "quiet_known": "the counters that say when it is quiet are there",
    "rows_read": "the database read rows for the queries",
    "exchanges_answered": "every exchange was answered and compared",
    "exchanges_same": "every answer has the same series and values from all variants",
    "exchanges_empty": "no answer is empty, unless it may be",
    "lines_exchanged": "every line of data that was exchanged was accepted by all variants",
    "operations_answered": "every operation at a fixed rate was answered",
    "operations_empty": "no answer at a fixed rate is empty, unless it may be",
    "equal_start": "all variants started alike",
    "server_log": "no panic and no fatal error in the server's log",
    "same_process": "the same server process from start to stop",
    "listens_on_loopback": "the server listens to nobody else",
    FOUND: "each benchmark ran for all variants in the warm-up",
    "bench_exit": "the test binary exited with 0, and failed and skipped nothing",
    "bench_result": "each benchmark printed one result, of as many operations as were asked for",
    "bench_required": "what `require:` names is there and above zero",
}
