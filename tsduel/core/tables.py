"""The columns of every table between two stages, in one place. `cell` is a key of each."""

# plan/blocks.tsv; order and query_types are lists with commas
BLOCKS_TSV = ("block", "cell", "host", "kind", "order", "query_types")

# tidy/*.csv
MEASUREMENTS = ("cell", "block", "variant", "part", "phase", "query_type", "metric", "value", "unit")
PAIRS = ("cell", "block", "candidate", "part", "phase", "query_type", "metric", "log_ratio", "se", "n")
TIMESERIES = ("cell", "block", "variant", "part", "phase", "query_type", "elapsed_s", "metric", "value")
DISTRIBUTIONS = ("cell", "variant", "query_type", "quantile", "value_ms", "n")
# of all operations at a fixed rate of the blocks that count, by adding their histograms; `rate` is operations a second,
# `operation` query or batch, `time` response, service or lateness
RESPONSES = ("cell", "variant", "part", "rate", "operation", "time", "quantile", "value_ms", "n")
CHECKS = ("cell", "block", "variant", "phase", "query_type", "check", "expected", "actual", "ok", "message")
NOISE = (
    *("cell", "block", "variant", "phase", "query_type"),
    *("signal", "value", "unit", "limit", "effect", "message"),
)
# which blocks count for which candidate; `second`: its solo part came after the baseline's; `host`: where it ran
BLOCKS = ("cell", "block", "candidate", "host", "kind", "counts", "cause", "second", "reason")
PHASES = ("cell", "block", "variant", "part", "phase", "query_type", "begin", "end")
UNITS = ("metric", "better")
# what functions cost in profiles, all `operations` of `hosts` together; `sample` is cpu, alloc_space, inuse_space or
# delay, `own` what a function and Go's own library below it take, `total` with all that it calls. The whole has no
# function, and a profile that could not be had has nothing but a message
PROFILES = (
    *("variant", "work", "role", "kind", "sample", "unit", "period", "operations", "hosts"),
    *("function", "own", "total", "message"),
)

# stats/comparison.csv
COMPARISON = (
    *("cell", "candidate", "metric", "query_type", "unit", "better", "baseline_median", "candidate_median"),
    *("change_pct", "lo_pct", "hi_pct", "p", "p_adj", "blocks", "mde_pct", "blocks_needed"),
    *("within_pct", "between_pct", "hosts", "hosts_pct", "hosts_p", "verdict", "warnings"),
)

# What is a number wherever it stands; everything else is text, and an empty text stays one. `se` may be empty.
NUMBERS = {"block", "value", "elapsed_s", "begin", "end", "log_ratio", "n", "quantile", "value_ms", "rate"} | {
    *("period", "operations", "hosts", "own", "total")
}
