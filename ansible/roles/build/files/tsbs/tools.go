//go:build tools

package tools

import (
	_ "github.com/timescale/tsbs/cmd/tsbs_generate_data"
	_ "github.com/timescale/tsbs/cmd/tsbs_generate_queries"
	_ "github.com/timescale/tsbs/cmd/tsbs_load_influx"
	_ "github.com/timescale/tsbs/cmd/tsbs_load_prometheus"
	_ "github.com/timescale/tsbs/cmd/tsbs_load_victoriametrics"
	_ "github.com/timescale/tsbs/cmd/tsbs_run_queries_influx"
	_ "github.com/timescale/tsbs/cmd/tsbs_run_queries_victoriametrics"
)
