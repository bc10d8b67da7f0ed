package packed

import (
	"fmt"
	"iter"
	"strconv"
	"strings"

	"skein.dev/skein/internal/store"
)

// PageRuns is the number of runs on one page of a list.
const PageRuns = 2048

// Page is one page of a list of runs (SQLite, column roll.bits). Bit i of page p stands for the run with the
// number PageRuns × p + i. The lowest bit of the first byte is bit 0.
type Page = [PageRuns / 64]uint64

// PackPage returns the bytes of a page.
func PackPage(p *Page) []byte {
	out := make([]byte, 0, PageRuns/8)
	for _, w := range p {
		for i := 0; i < 64; i += 8 {
			out = append(out, byte(w>>i))
		}
	}
	return out
}

// UnpackPage reads the bytes of a page.
func UnpackPage(raw *[PageRuns / 8]byte) (p Page) {
	for i, b := range raw {
		p[i/8] |= uint64(b) << (i % 8 * 8)
	}
	return p
}

// AppendLine appends rising numbers of runs in the form of a row of a line (SQLite, column line.runs): a JSON
// list of their differences to the first number.
func AppendLine(b []byte, runs iter.Seq[int64]) []byte {
	b = append(b, '[')
	first := int64(-1)
	for n := range runs {
		if first < 0 {
			first = n
		} else {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, n-first, 10)
	}
	return append(b, ']')
}

// UnpackLine returns the numbers of the runs in a row of a line. The parameter first is the number of the
// first run. It returns ErrCorrupt if the text is not such a list.
func UnpackLine(first int64, text string) ([]int64, error) {
	list, opens := strings.CutPrefix(text, "[")
	list, ends := strings.CutSuffix(list, "]")
	if !opens || !ends {
		return nil, fmt.Errorf("a row of a line is not a list: %.40q: %w", text, store.ErrCorrupt)
	}
	runs := make([]int64, 0, strings.Count(list, ",")+1)
	for part := range strings.SplitSeq(list, ",") {
		n, err := strconv.ParseInt(part, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("a row of a line has the invalid distance %.40q: %w", part, store.ErrCorrupt)
		}
		runs = append(runs, first+n)
	}
	return runs, nil
}
