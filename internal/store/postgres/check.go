package postgres

import (
	"context"
	"fmt"
)

// checkMax bounds what one check reports.
const checkMax = 100

// Check compares the list of unfinished runs with the runs, in one snapshot.
func (d *DB) Check(ctx context.Context) (bad []string, err error) {
	report := func(format string) func(*row) error {
		return func(r *row) error {
			bad = append(bad, fmt.Sprintf(format, r.id()))
			return r.damaged("a run's id")
		}
	}
	most := args{}.int8(checkMax)
	err = d.queries(ctx, query{"snapshot", nil, nil},
		query{"strayActive", most, report("run %s is on the list of unfinished runs and does not belong there")},
		query{"missingActive", most, report("run %s is not on the list of unfinished runs")}, query{"done", nil, nil})
	return bad, err
}
