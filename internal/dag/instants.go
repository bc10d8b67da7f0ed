package dag

import (
	"fmt"
	"math"
)

// InstantsMax bounds a packed list of instants.
const InstantsMax = 100_000

// PackInstants packs a list of instants in its order, rising or falling. Equal steps are written once with
// their number, in the largest unit that divides all of them. So a year of hours takes about a dozen bytes,
// and a row that contains the list may be written often. The list may have at most [InstantsMax] instants.
func PackInstants(list []Micros) []byte {
	var w packer
	w.byte(1) // the version of this form
	w.uint(uint64(len(list)))
	if len(list) == 0 {
		return w.b
	}
	unit := int64(0)
	for i := 1; i < len(list); i++ {
		unit = divisor(unit, int64(list[i]-list[i-1]))
	}
	unit = max(unit, 1)
	w.uint(zigzag(int64(list[0])))
	w.uint(uint64(unit))
	for i := 1; i < len(list); {
		step, from := list[i]-list[i-1], i
		for i < len(list) && list[i]-list[i-1] == step {
			i++
		}
		w.uint(zigzag(int64(step) / unit))
		w.uint(uint64(i - from))
	}
	return w.b
}

// UnpackInstants returns up to limit instants of a packed list, beginning at index skip. A limit of 0 means
// all.
func UnpackInstants(b []byte, skip, limit int) ([]Micros, error) {
	u := unpacker{b: b}
	form, total := u.byte(), u.uint()
	if form != 1 || total > InstantsMax || skip < 0 || limit < 0 {
		return nil, fmt.Errorf("list of instants: %w", errPacked)
	}
	n := int(total)
	end := n
	if skip = min(skip, n); limit > 0 {
		end = min(n, skip+limit)
	}
	list := make([]Micros, 0, end-skip)
	at, unit := int64(0), int64(1)
	for i, left, step := 0, uint64(0), int64(0); i < n; i++ {
		switch {
		case i == 0:
			at, unit = unzigzag(u.uint()), int64(u.uint())
			u.bad = u.bad || unit < 1
		case left == 0:
			step, left = unzigzag(u.uint()), u.uint()
			u.bad = u.bad || left < 1 || left > uint64(n-i) || step > math.MaxInt64/unit || step < -math.MaxInt64/unit
			step *= unit
			fallthrough
		default:
			at += step
			left--
		}
		if u.bad {
			break
		}
		if i >= skip && i < end {
			list = append(list, Micros(at))
		}
	}
	if u.bad || len(u.b) > 0 {
		return nil, fmt.Errorf("list of instants: %w", errPacked)
	}
	return list, nil
}

// CountInstants returns the length of a packed list.
func CountInstants(b []byte) (int, error) {
	u := unpacker{b: b}
	form, total := u.byte(), u.uint()
	if u.bad || form != 1 || total > InstantsMax {
		return 0, fmt.Errorf("list of instants: %w", errPacked)
	}
	return int(total), nil
}

// divisor returns the greatest common divisor. divisor(0, n) is n.
func divisor(a, b int64) int64 {
	if b < 0 {
		b = -b
	}
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func zigzag(v int64) uint64   { return uint64(v<<1) ^ uint64(v>>63) }
func unzigzag(v uint64) int64 { return int64(v>>1) ^ -int64(v&1) }
