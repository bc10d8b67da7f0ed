package dag

// nearTries bounds the names that are looked at for a hint.
const nearTries = 10_000

// Near is the task whose name somebody who wrote name most likely meant; "" if none is near.
func (g *Graph) Near(name string) string {
	best, least := "", max(len(name)/2, 1)+1
	if len(name) > 100 {
		return ""
	}
	for _, n := range g.names[:min(len(g.names), nearTries)] {
		if d := len(n) - len(name); d >= least || -d >= least {
			continue
		}
		if d := distance(name, n); d < least && d < len(n) {
			best, least = n, d
		}
	}
	return best
}

// distance counts the letters to change, add or leave out to come from a to b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal, row[j+1] = row[j+1], min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
