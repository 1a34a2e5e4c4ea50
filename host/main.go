package main

// Packages whose users are on their way; `go mod tidy` keeps what they need.
import (
	_ "github.com/HdrHistogram/hdrhistogram-go"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/prometheus/client_model/go"
	_ "github.com/prometheus/common/expfmt"
	_ "github.com/prometheus/procfs"
	_ "github.com/timescale/tsbs/pkg/query"
	_ "golang.org/x/sys/unix"
)

func main() {}
