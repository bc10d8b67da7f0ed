package app

import (
	"slices"
	"strings"
	"testing"
	"time"

	"skein.dev/skein/internal/inspect"
	"skein.dev/skein/internal/retention"
	skein "skein.dev/skein/sdk"
	api "skein.dev/skein/sdk/api/v1"
)

// TestWorkflowStats counts the runs of a node, also after they were deleted and after a restart.
func TestWorkflowStats(t *testing.T) {
	c := testConfig(t, map[string]string{"retention-runs": "1"})
	n, k, stop := startNode(t, c)
	text := "name: w\nparams: {code: {type: int}}\nenv: {CODE: \"${{ params.code }}\"}\ntasks:\n  a: {run: 'exit $CODE'}\n"
	if _, err := k.Apply(t.Context(), "w", api.ApplyRequest{Source: text}); err != nil {
		t.Fatal(err)
	}
	for _, code := range []int{0, 1, 0} {
		if _, _, err := k.Start(t.Context(), api.RunRequest{Workflow: "w", Params: map[string]any{"code": code}}, skein.Wait(30*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(q skein.StatsQuery, n, failed int64) api.WorkflowStats {
		t.Helper()
		stats, err := skein.NewStats(k).Of(t.Context(), "w", q)
		if err != nil {
			t.Fatal(err)
		}
		if is := stats.Total; !stats.Counted || stats.Damaged != 0 || is.N != n || is.Failed != failed || is.Succeeded != n-failed || is.P95 == nil || *is.P95 > *is.Max {
			t.Fatalf("%+v", stats)
		}
		return stats
	}
	if err := n.upkeep.tally.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	check(skein.StatsQuery{}, 3, 1)
	if err := retention.New(n.retention()).Pass(t.Context()); err != nil {
		t.Fatal(err)
	}
	page, err := k.Runs(t.Context(), skein.RunsQuery{Workflow: "w"})
	if err != nil || len(page.Items) != 1 {
		t.Fatalf("%d runs are left, %v", len(page.Items), err)
	}
	var days []string // two if midnight passes during the test
	for _, row := range check(skein.StatsQuery{By: "hour"}, 3, 1).Items {
		if day := row.At.UTC().Format(time.DateOnly); !slices.Contains(days, day) {
			days = append(days, day)
		}
	}
	check(skein.StatsQuery{Task: "a"}, 3, 1)
	tasks := check(skein.StatsQuery{By: "task"}, 3, 1)
	if len(tasks.Items) != 1 || tasks.Items[0].Task == nil || *tasks.Items[0].Task != "a" || tasks.Items[0].N != 3 {
		t.Errorf("tasks %+v", tasks.Items)
	}
	checkCounts(t, k, days)
	found, err := inspect.Verify(t.Context(), n.store, compiler())
	if err != nil || len(found) > 0 {
		t.Errorf("verify: %v, %v", found, err)
	}
	if _, err := skein.NewStats(k).Of(t.Context(), "w", skein.StatsQuery{By: "hour", From: time.Now().Add(-90 * 24 * time.Hour)}); err == nil {
		t.Error("90 days of hours are an answer")
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	_, k, stop = startNode(t, c)
	defer stop()
	if _, _, err := k.Start(t.Context(), api.RunRequest{Workflow: "w", Params: map[string]any{"code": 0}}, skein.Wait(30*time.Second)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the folder of the second node has counted", func() bool {
		stats, err := skein.NewStats(k).Of(t.Context(), "w", skein.StatsQuery{})
		return err == nil && stats.Total.N == 4
	})
}

// checkCounts compares the counts of all runs with those of the only workflow: two runs succeeded and one
// failed, on these days.
func checkCounts(t *testing.T, k *skein.Client, days []string) {
	t.Helper()
	for _, c := range []struct {
		q    skein.CountsQuery
		want []string
	}{
		{skein.CountsQuery{}, days},
		{skein.CountsQuery{By: "workflow", Namespace: "default"}, []string{"default/w"}},
		{skein.CountsQuery{By: "state", Workflow: "w"}, []string{"succeeded", "failed"}},
		{skein.CountsQuery{By: "state", From: time.Now().Add(-time.Hour)}, []string{"succeeded", "failed"}},
		{skein.CountsQuery{By: "hour", Namespace: "other"}, nil},
	} {
		got, err := skein.NewStats(k).Counts(t.Context(), c.q)
		if err != nil {
			t.Fatalf("%+v: %v", c.q, err)
		}
		n, failed := int64(0), int64(0)
		for i, item := range got.Items {
			if n, failed = n+item.N, failed+item.Failed; i >= len(c.want) || !strings.HasPrefix(item.Key, c.want[i]) || item.P95 == nil || *item.P95 > *item.Max {
				t.Errorf("%+v: item %d is %+v", c.q, i, item)
			}
		}
		if !got.Counted || got.Damaged != 0 || got.Next != "" || len(c.want) > 0 && (n != 3 || failed != 1) || len(got.Items) != len(c.want) {
			t.Errorf("%+v: %+v", c.q, got)
		}
	}
}
