package store

import "skein.dev/skein/internal/dag"

// ParentsMax bounds how many tokens stand above one: its parent, the parent of that, and so on.
const ParentsMax = 8

// Family holds tokens by ID. It tells which of them made which.
type Family map[int64]*Token

// FamilyOf returns the family of a list of tokens. It keeps pointers into the list.
func FamilyOf(all []Token) Family {
	f := make(Family, len(all))
	for i := range all {
		f[all[i].ID] = &all[i]
	}
	return f
}

// Line returns a token and those above it, the token first. whole is false if one of them is missing or if
// there are more than ParentsMax above it: such a token does not count.
func (f Family) Line(t *Token) (line []*Token, whole bool) {
	for t != nil && len(line) <= ParentsMax {
		line = append(line, t)
		if t.Parent == 0 {
			return line, true
		}
		t = f[t.Parent]
	}
	return line, false
}

// Valid reports whether a token and all those above it are valid now.
func (f Family) Valid(t *Token, now dag.Micros) bool {
	if t.Parent == 0 {
		return t.Valid(now)
	}
	line, whole := f.Line(t)
	for _, one := range line {
		whole = whole && one.Valid(now)
	}
	return whole
}

// Stays reports whether the token of an ID and all those above it are valid now and have no successor. A
// replaced token ends soon, and with it all that it made.
func (f Family) Stays(id int64, now dag.Micros) bool {
	line, whole := f.Line(f[id])
	for _, one := range line {
		whole = whole && one.Replaced == 0 && one.Valid(now)
	}
	return whole
}

// End returns when a token ends: by its own end, or by that of a token above it. 0: by none.
func (f Family) End(t *Token) (end dag.Micros) {
	line, _ := f.Line(t)
	for _, one := range line {
		if end == 0 || one.Expires != 0 && one.Expires < end {
			end = one.Expires
		}
	}
	return end
}

// IsAbove reports whether the token of an ID stands above another token.
func (f Family) IsAbove(id int64, t *Token) bool {
	line, _ := f.Line(t)
	for _, one := range line[1:] {
		if one.ID == id {
			return true
		}
	}
	return false
}
