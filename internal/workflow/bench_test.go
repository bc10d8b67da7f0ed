package workflow

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func big(n int) []byte {
	var b strings.Builder
	b.WriteString("name: big\nparams: {day: string}\ntasks:\n  t0: {run: x}\n")
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, "  t%d:\n    needs: [t%d]\n    run: echo \"hello %d\"\n    env: {A: \"${{ params.day }}\"}\n", i, i-1, i)
	}
	return []byte(b.String())
}

func BenchmarkParse(b *testing.B) {
	for _, n := range []int{1000, 10_000, 100_000} {
		src := big(n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, errs := Parse(src, Options{}); len(errs) > 0 {
					b.Fatal(errs.Error())
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	all, _ := Parse(big(100_000), Options{})
	def, err := json.Marshal(all[0])
	if err != nil {
		b.Fatal(err)
	}
	b.Run("100000", func(b *testing.B) {
		for b.Loop() {
			if _, err := Decode(def); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("graph", func(b *testing.B) {
		for b.Loop() {
			if _, err := all[0].Graph(0); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkResolve(b *testing.B) {
	all, _ := Parse(big(10), Options{})
	in := Inputs{Params: json.RawMessage(`{"day":"monday"}`)}
	for b.Loop() {
		if _, err := all[0].Resolve(5, in); err != nil {
			b.Fatal(err)
		}
	}
}
