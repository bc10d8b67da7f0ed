package cron

import (
	"fmt"
	"strconv"
	"strings"
)

// field describes one of the seven fields.
type field struct {
	name   string
	lo, hi int
	names  []string // names of the values from lo on; nil if there is none
	wraps  bool     // a range may wrap
}

// The fields, in the order of the longest form.
const (
	fSecond = iota
	fMinute
	fHour
	fDom
	fMonth
	fDow
	fYear
	fields
)

// specs is never changed. For the day of the week, 7 is replaced by 0 before specs is used.
var specs = [fields]field{
	{name: "second", hi: 59},
	{name: "minute", hi: 59},
	{name: "hour", hi: 23, wraps: true},
	{name: "day of month", lo: 1, hi: 31},
	{name: "month", lo: 1, hi: 12, names: monthNames, wraps: true},
	{name: "day of week", hi: 6, names: weekdayNames, wraps: true},
	{name: "year", lo: yearMin, hi: yearMax},
}

var (
	monthNames = []string{"January", "February", "March", "April", "May", "June", "July", "August",
		"September", "October", "November", "December"}
	weekdayNames = []string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"}
)

// number reads a plain decimal number; no sign, at most nine digits.
func number(s string) (int, bool) {
	if s == "" || len(s) > 9 {
		return 0, false
	}
	n := 0
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, false
		}
		n = n*10 + int(s[i]-'0')
	}
	return n, true
}

// value reads a number or a name of the field.
func (f *field) value(s string) (int, error) {
	if n, ok := number(s); ok {
		if f.name == "day of week" && n == 7 {
			return 0, nil
		}
		if n < f.lo || n > f.hi {
			return 0, f.reject(s+" is out of range", "write "+f.span())
		}
		return n, nil
	}
	for i, name := range f.names {
		if len(s) >= 3 && len(s) <= len(name) && strings.EqualFold(name[:len(s)], s) {
			return f.lo + i, nil
		}
	}
	if s == "" {
		return 0, f.reject("a value is missing", "write "+f.span())
	}
	return 0, f.reject(quote(clip(s))+" is not a value", "write "+f.span())
}

// span describes the range of the field's values.
func (f *field) span() string {
	switch f.name {
	case "day of week":
		return "0 to 7 (0 and 7 are Sunday) or sun to sat"
	case "month":
		return "1 to 12 or jan to dec"
	}
	return strconv.Itoa(f.lo) + " to " + strconv.Itoa(f.hi)
}

// reject returns an error of this field. The caller fills in the position.
func (f *field) reject(reason, hint string) *Error { return bad(f.name, "", reason, hint) }

// progression is the sequence lo, lo+step and so on up to hi. If hi is beyond the field's greatest value, the
// sequence wraps.
type progression struct{ lo, hi, step int }

// each calls the function do with the values, in order.
func (f *field) each(p progression, do func(int)) {
	size := f.hi - f.lo + 1
	hi := p.hi
	if hi < p.lo {
		hi += size
	}
	for v := p.lo; v <= hi; v += p.step {
		if v > f.hi {
			do(v - size)
		} else {
			do(v)
		}
	}
}

// progression reads *, 5 or 5-10, each with or without /step, and the forms of H. seed determines the value
// of H. The returned text is canonical.
func (f *field) progression(item string, seed uint64) (progression, string, error) {
	body, stepText, stepped := strings.Cut(item, "/")
	p := progression{f.lo, f.hi, 1}
	size := f.hi - f.lo + 1
	if stepped {
		step, err := f.step(stepText, size)
		if err != nil {
			return p, "", err
		}
		p.step = step
	}
	switch {
	case body == "*":
		if stepped {
			return p, "*/" + strconv.Itoa(p.step), nil
		}
		return p, "*", nil
	case body != "" && (body[0] == 'H' || body[0] == 'h') && (len(body) == 1 || body[1] == '('):
		if err := f.hashed(&p, body, stepped, seed); err != nil {
			return p, "", err
		}
	default:
		from, to, ranged := strings.Cut(body, "-")
		lo, err := f.value(from)
		if err != nil {
			return p, "", err
		}
		p.lo = lo
		if ranged {
			if p.hi, err = f.value(to); err != nil {
				return p, "", err
			}
			if to == "7" && f.name == "day of week" && from == "0" {
				p.hi = f.hi // 0-7 is the whole week, not one Sunday
			}
		} else if !stepped {
			p.hi = p.lo
		}
	}
	if p.hi < p.lo && !f.wraps {
		return p, "", f.reject(fmt.Sprintf("the range %d-%d runs backwards", p.lo, p.hi),
			fmt.Sprintf("write %d-%d, or %d-%d,%d-%d to go over the end", p.hi, p.lo, p.lo, f.hi, f.lo, p.hi))
	}
	return p, p.text(stepped), nil
}

func (p progression) text(stepped bool) string {
	s := strconv.Itoa(p.lo)
	if p.hi != p.lo || stepped {
		s += "-" + strconv.Itoa(p.hi)
	}
	if stepped {
		s += "/" + strconv.Itoa(p.step)
	}
	return s
}

func (f *field) step(s string, size int) (int, error) {
	n, ok := number(s)
	switch {
	case !ok:
		return 0, f.reject("the step "+quote(clip(s))+" is not a number", "write a step such as */5")
	case n == 0:
		return 0, f.reject("a step cannot be 0", "write a step of at least 1")
	case n > size:
		hint := fmt.Sprintf("write a step up to %d", size)
		if f.name == "minute" || f.name == "second" || f.name == "hour" {
			hint += fmt.Sprintf(", or @every %d%c for an interval", n, f.name[0])
		}
		return 0, f.reject(fmt.Sprintf("a step of %d is longer than the whole field", n), hint)
	}
	return n, nil
}

// hashed computes the values of H, H(a-b) and their steps.
func (f *field) hashed(p *progression, body string, stepped bool, seed uint64) error {
	if f.name == "year" {
		return f.reject("H has no meaning for a year", "write the years")
	}
	if f.name == "day of month" {
		p.hi = 28 // the last day that every month has
	}
	if len(body) > 1 {
		inner, closed := strings.CutSuffix(body[2:], ")")
		from, to, ranged := strings.Cut(inner, "-")
		if !closed || !ranged {
			return f.reject(quote(clip(body))+" is not complete", "write H(LOW-HIGH), such as H(0-29)")
		}
		var err error
		if p.lo, err = f.value(from); err != nil {
			return err
		}
		if p.hi, err = f.value(to); err != nil {
			return err
		}
		if p.hi < p.lo {
			return f.reject("the range of H runs backwards", "write H(LOW-HIGH), such as H(0-29)")
		}
	}
	choices := p.hi - p.lo + 1
	if stepped {
		p.lo += int(seed % uint64(min(p.step, choices)))
		return nil
	}
	p.lo += int(seed % uint64(choices))
	p.hi = p.lo
	return nil
}

// hash returns a 64-bit hash: FNV-1a, and then the finalizer of MurmurHash3, so that the remainder by a small
// number depends on every byte.
func hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
