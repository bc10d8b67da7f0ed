package postgres

import (
	"context"
	"fmt"

	"skein.dev/skein/internal/store"
)

// checkMax bounds the faults that one check reports.
const checkMax = 100

// Check compares derived data with the rows that it is derived from, in one snapshot: the lists of runs, the
// number of workflows of each shard, and the stocks of namespaces, once they were counted.
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
		query{"missingActive", most, report("run %s is not on the list of unfinished runs")},
		query{"straySubmitted", most, report("run %s is on the list of submitted runs and does not belong there")},
		query{"missingSubmitted", most, report("run %s is not on the list of submitted runs")},
		query{"strayUnsuccessful", most, report("run %s is on the list of unsuccessful runs and does not belong there")},
		query{"missingUnsuccessful", most, report("run %s is not on the list of unsuccessful runs")},
		query{"strayTags", most, report("run %s is on the list of a tag that it does not have")},
		query{"missingTags", most, report("run %s is not on the list of one of its tags")},
		query{"strayLine", most, report("run %s is in a line and does not belong there")},
		query{"miscounted", nil, func(r *row) error {
			bad = append(bad, fmt.Sprintf("shard %d says that it has %d workflows, and it has %d", r.int(), r.int(), r.int()))
			return r.damaged("a shard")
		}},
		query{"wrongStocks", nil, func(r *row) error {
			bad = append(bad, fmt.Sprintf(store.StockMiscounted, r.text(), r.int(), r.int(), r.int(), r.int(), r.int(), r.int()))
			return r.damaged("the stock of a namespace")
		}}, query{"done", nil, nil})
	return bad, err
}
