# What happened between two edges (lib/noise.sh): seconds and counts over it; null where the host has no such figure.

def rounded: if . == null then null else . * 1000000 | round / 1000000 end;
def grown($from; $to): if $from == null or $to == null then null else $to - $from end;
# USER_HZ is 100 on every Linux that Go runs on.
def in_seconds: if . == null then null else . / 100 end;

def noise($from; $to):
  if $from == null or $to == null then null else
    def cpu($column): ($to.cpu[$column] - $from.cpu[$column]) | in_seconds;
    (grown($from.server; $to.server) | in_seconds) as $server
    | (grown($from.own; $to.own) | in_seconds) as $own
    # One by one: a thread that has ended takes its ticks with it, and its number may be given again.
    | ([$to.kernel | to_entries[] | [.value - ($from.kernel[.key] // 0), 0] | max] | add // 0 | in_seconds) as $kernel
    | (cpu(0) + cpu(1) + cpu(2)) as $busy
    | {
        seconds: ($to.uptime_s - $from.uptime_s),
        clock_step_s: (($to.at - $from.at) - ($to.uptime_s - $from.uptime_s)),
        cpus: $to.cpus,
        busy_s: $busy,
        steal_s: cpu(7),
        iowait_s: cpu(4),
        server_s: $server,
        own_s: $own,
        kernel_s: $kernel,
        # The ticks of processes and of the host are counted in two ways, so the rest can be a tick below nothing.
        foreign_s: (if $server == null then null else [$busy - $server - $own - $kernel, 0] | max end),
        context_switches: ($to.context_switches - $from.context_switches),
        swap_pages: ($to.swap_in - $from.swap_in + $to.swap_out - $from.swap_out),
        temperature_c: ([$from.temperature, $to.temperature] | max | if . == null then null else . / 1000 end)
      }
    | map_values(rounded)
    | .pressure_s = ($to.pressure | with_entries(.value = ((.value - ($from.pressure[.key] // .value)) / 1000000 | rounded)))
  end;
