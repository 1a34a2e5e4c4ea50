package block

import (
	"bufio"
	"compress/gzip"
	"math"
	"os"
	"slices"
	"strconv"

	"tsduel/host/exchange"
	"tsduel/host/record"
)

// exchangeFile is duel/exchanges.csv.gz or load.csv.gz: one line an exchange.
type exchangeFile struct {
	file *os.File
	pack *gzip.Writer
	text *bufio.Writer
}

// createExchanges begins a file with the columns of `first`, then one of ns for each variant.
func createExchanges(path, first string, variants []record.Variant) (*exchangeFile, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	pack, _ := gzip.NewWriterLevel(file, gzip.BestSpeed)
	e := &exchangeFile{file, pack, bufio.NewWriterSize(pack, 1<<16)}
	line := first
	for _, v := range variants {
		line += "," + v.Name + "_ns"
	}
	_, err = e.text.WriteString(line + "\n")
	return e, err
}

// add writes a phase. places are the columns of its sides; a variant that was not asked or did not answer has an empty field.
func (e *exchangeFile) add(prefix string, places []int, columns int, exchanges []exchange.Exchange) error {
	var line []byte
	ns := make([]int64, columns)
	for k, x := range exchanges {
		line = append(line[:0], prefix...)
		line = strconv.AppendInt(line, int64(k), 10)
		line = append(line, ',')
		for _, side := range x.Order {
			line = strconv.AppendInt(line, int64(places[side-'0']), 10)
		}
		line = append(line, ',')
		line = strconv.AppendInt(line, int64(max(x.Lines, x.Bytes)), 10) // a batch has no answer, a query no lines
		clear(ns)
		for side, place := range places {
			ns[place] = x.NS[side]
		}
		for _, n := range ns {
			line = append(line, ',')
			if n > 0 {
				line = strconv.AppendInt(line, n, 10)
			}
		}
		if _, err := e.text.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

func (e *exchangeFile) close() (err error) {
	for _, f := range []func() error{e.text.Flush, e.pack.Close, e.file.Sync, e.file.Close} {
		if failed := f(); err == nil {
			err = failed
		}
	}
	return err
}

// typical is the mean of the log ratios of one side's times and the first side's, without the tenth that is highest
// and the tenth that is lowest (MEASUREMENT.md 3). False where there is no pair.
func typical(exchanges []exchange.Exchange, side int) (float64, bool) {
	var logs []float64
	for _, x := range exchanges {
		if x.NS[0] > 0 && x.NS[side] > 0 {
			logs = append(logs, math.Log(float64(x.NS[side])/float64(x.NS[0])))
		}
	}
	slices.Sort(logs)
	cut := len(logs) / 10
	logs = logs[cut : len(logs)-cut]
	if len(logs) == 0 {
		return 0, false
	}
	return mean(logs), true
}

func mean(values []float64) (m float64) {
	for _, v := range values {
		m += v / float64(len(values))
	}
	return m
}
