package workload

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/VictoriaMetrics/VictoriaMetrics/lib/encoding"
	"github.com/VictoriaMetrics/VictoriaMetrics/lib/storage"
)

// nativeOf writes blocks as VictoriaMetrics exports them: each has a name, tags, and values in tenths 10 s apart.
func nativeOf(blocks ...[]int64) []byte {
	out := encoding.MarshalInt64(encoding.MarshalInt64(nil, 0), 1<<50)
	for i, values := range blocks {
		var times []int64
		for n := range values {
			times = append(times, 1749513600000+int64(n)*10_000)
		}
		var name storage.MetricName
		name.MetricGroup = []byte("queue_length")
		name.AddTag("instance", string(rune('a'+i)))
		name.AddTag("path", "a \"b\\c\n")
		var block storage.Block
		block.Init(&storage.TSID{}, times, values, -1, 64)
		for _, part := range [][]byte{name.Marshal(nil), block.MarshalPortable(nil)} {
			out = append(binary.BigEndian.AppendUint32(out, uint32(len(part))), part...)
		}
	}
	return out
}

func TestANativeExportIsReadAsLinesOfJSON(t *testing.T) {
	content := nativeOf([]int64{5, 13, -20}, []int64{1})
	for _, packed := range [][]byte{content, gzipped(string(content)), zstdOf(string(content))} {
		d, cache, err := dumped(t, packed)
		must(t, err)
		if d.Format != "json" || d.Samples != 4 || d.Series != 2 || d.Lines != 2 ||
			strings.Join(d.Names, "") != "queue_length" {
			t.Errorf("%+v", d)
		}
		first, _, _ := strings.Cut(linesIn(t, cache, d), "\n")
		if want := `{"metric":{"__name__":"queue_length","instance":"a","path":"a \"b\\c\n"},"values":[0.5,1.3,-2],` +
			`"timestamps":[1749513600000,1749513610000,1749513620000]}`; first != want {
			t.Errorf("got %s", first)
		}
	}
}

func TestADamagedNativeExportIsRefusedWithItsBlock(t *testing.T) {
	first := nativeOf([]int64{5, 13, -20})
	content := nativeOf([]int64{5, 13, -20}, []int64{1, 2, 3})
	read := func(content []byte) error {
		blocks, err := newNatives(bufio.NewReader(bytes.NewReader(content)))
		must(t, err)
		_, err = io.ReadAll(blocks)
		return err
	}
	for cut := nativeHead + 1; cut < len(content); cut++ {
		if err := read(content[:cut]); cut == len(first) && err != nil ||
			cut != len(first) && (err == nil || !strings.HasPrefix(err.Error(), "block ")) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	draw := rand.New(rand.NewPCG(1, 2))
	for range 300 { // an error or other samples, and no panic
		broken := bytes.Clone(content)
		broken[nativeHead+draw.IntN(len(broken)-nativeHead)] ^= byte(1 + draw.IntN(255))
		_ = read(broken)
	}
	if _, _, err := dumped(t, content[:len(first)+1]); err == nil || !strings.Contains(err.Error(), "block 2: ") {
		t.Error(err)
	}
}

func TestValuesThatAreNoNumbersAreNoSamples(t *testing.T) {
	for _, text := range []string{strings.Replace(jsonLine, `"values":[`, `"values":[null,`, 1), textLine} {
		text = strings.Replace(text, `"timestamps":[`, `"timestamps":[1749513500000,`, 1)
		if text == textLine {
			text += strings.Replace(textLine, " 12 ", " NaN ", 1)
		}
		d, _, err := dumped(t, []byte(text))
		if err != nil || d.Numberless != 1 {
			t.Errorf("%q: %+v, %v", text, d, err)
		}
	}
}
