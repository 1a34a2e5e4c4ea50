# Snapshots: what the kernel says of the server process and the host, then the server's own /metrics.
# Builtins only, but for one `grep` or `cat` a snapshot: this runs every second while a phase is timed.
# shellcheck shell=bash
# Read by the scripts that source this.
# shellcheck disable=SC2034
# Needs DB_PORT and SERVER_PID; every function prints Prometheus text.

# A server that hangs must not take us with it.
readonly SCRAPE_TIMEOUT_S=10

# How many queries were answered, for those who watch.
readonly QUERIES_SERIES='vm_http_requests_total{path="/api/v1/query_range"}'

# What a tick keeps of /metrics: the series that the report draws over time.
readonly TICK_SERIES='^(process_resident_memory_bytes|vm_rows_inserted_total\{type="influx"|vm_pending_rows|vm_active_merges|vm_data_size_bytes|vm_parts\{|vm_slow_row_inserts_total|vm_new_timeseries_created_total|vm_http_requests_total\{path="/api/v1/query_range"|go_gc_cpu|vm_rows\{)'

ticks_to_seconds() { # CLOCK_TICKS: USER_HZ is 100 on every Linux that Go runs on
  printf -v REPLY '%d.%02d' $(($1 / 100)) $(($1 % 100))
}

process_lines() {
  local stat line name
  local -a field lines
  { read -r stat <"/proc/$SERVER_PID/stat"; } 2>/dev/null || return 0
  # The command name in parentheses may hold spaces: count fields after it.
  read -r -a field <<<"${stat##*) }"
  ticks_to_seconds "${field[11]}"
  printf 'tsduel_process_cpu_seconds_total{mode="user"} %s\n' "$REPLY"
  ticks_to_seconds "${field[12]}"
  printf 'tsduel_process_cpu_seconds_total{mode="system"} %s\n' "$REPLY"
  printf 'tsduel_process_major_faults_total %s\n' "${field[9]}"
  # It may die at any moment: then the rest is missing, which is no error of ours.
  { mapfile -t lines <"/proc/$SERVER_PID/status"; } 2>/dev/null || return 0
  for line in "${lines[@]}"; do
    case $line in
    VmHWM:*) printf 'tsduel_process_resident_memory_peak_bytes %s\n' $((${line//[!0-9]/} * 1024)) ;;
    VmRSS:*) printf 'tsduel_process_resident_memory_bytes %s\n' $((${line//[!0-9]/} * 1024)) ;;
    esac
  done
  { mapfile -t lines <"/proc/$SERVER_PID/io"; } 2>/dev/null || return 0
  for line in "${lines[@]}"; do
    case ${line%: *} in
    rchar) name=io_read ;;
    wchar) name=io_written ;;
    read_bytes) name=io_storage_read ;;
    write_bytes) name=io_storage_written ;;
    *) continue ;;
    esac
    printf 'tsduel_process_%s_bytes_total %s\n' "$name" "${line#*: }"
  done
}

host_lines() {
  local -a cpu
  local -r modes=(user nice system idle iowait irq softirq steal)
  local i resource line
  read -r -a cpu </proc/stat
  for i in "${!modes[@]}"; do
    ticks_to_seconds "${cpu[i + 1]}"
    printf 'tsduel_host_cpu_seconds_total{mode="%s"} %s\n' "${modes[i]}" "$REPLY"
  done
  for resource in cpu io memory; do
    [[ -r /proc/pressure/$resource ]] || continue
    read -r line <"/proc/pressure/$resource" || continue
    line=${line##*total=}
    printf 'tsduel_host_pressure_seconds_total{resource="%s"} %d.%06d\n' "$resource" $((line / 1000000)) $((line % 1000000))
  done
}

metrics_body() { # COMMAND...: the server's /metrics through COMMAND; nothing when it does not answer
  local fd line try
  # A busy server may reset a connection before it answers; once it has answered nothing is asked twice.
  for try in 1 2 3; do
    { exec {fd}<>"/dev/tcp/127.0.0.1/$DB_PORT"; } 2>/dev/null || return 0
    # HTTP/1.0: the body comes unchunked and ends with the connection.
    { printf 'GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' >&"$fd"; } 2>/dev/null || true
    line=""
    while { IFS= read -r -t "$SCRAPE_TIMEOUT_S" line <&"$fd"; } 2>/dev/null && [[ $line != $'\r' ]]; do :; done
    [[ $line == $'\r' ]] && break
    exec {fd}>&-
    ((try < 3)) || return 0
    pause 0.1
  done
  timeout "$SCRAPE_TIMEOUT_S" "$@" <&"$fd" || true
  exec {fd}>&-
}
