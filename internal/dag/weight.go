package dag

const (
	// AttemptWeight is the number of bytes that each attempt counts for its row and its part of the history.
	// The rows are packed in different ways, so this is an estimate.
	AttemptWeight = 64
	// WeightLeast is the least number of bytes with which a run counts. Counting smaller runs would make
	// their ends slower for little information.
	WeightLeast = 1 << 10
	// SizeMax bounds the size of a log and of artifacts, because a worker states them.
	SizeMax = 1 << 40
)

// stated returns a size that a worker has stated, within its bounds.
func stated(size int64) int64 { return max(0, min(size, SizeMax)) }

// weigh adds the bytes that an ended attempt keeps to the weight of its run.
func weigh(r *Run, res *Result) {
	n := stated(res.Logged) + stated(res.Left)
	if res.State == AttemptSucceeded {
		n += int64(len(res.Outputs))
	}
	r.weight, r.gained = r.weight+n, r.gained+n
}

// Weigh returns the number of bytes that a run keeps: the logs, artifacts and outputs of all its attempts, a
// graph of its own, the states that are kept of earlier generations, and AttemptWeight for each attempt. It
// returns 0 if there are fewer than WeightLeast. All of it is in the rows of the run, so a new owner, and
// WeightOf, find the same number.
func Weigh(r *Run) int64 { return weighs(r.weight, r.own, r.base) }

// WeightOf is like Weigh, from rows that Store.Load or Store.Scan has read.
func WeightOf(row *RunRow, attempts []AttemptRow) int64 {
	return weighs(weightOf(row, attempts), row.Graph, row.Base)
}

func weightOf(row *RunRow, attempts []AttemptRow) int64 {
	return row.Weight + AttemptWeight*int64(len(attempts))
}

func weighs(attempts int64, own, base []byte) int64 {
	n := attempts + int64(len(own)+len(base))
	if n < WeightLeast {
		return 0
	}
	return n
}
