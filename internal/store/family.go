package store

import "skein.dev/skein/internal/dag"

// ParentsMax bounds the ancestors of a token: its parent, the parent of its parent, and so on.
const ParentsMax = 8

// Family holds tokens by ID, and their ancestors.
type Family map[int64]*Token

// FamilyOf returns the family of a list of tokens. It keeps pointers into the list.
func FamilyOf(all []Token) Family {
	f := make(Family, len(all))
	for i := range all {
		f[all[i].ID] = &all[i]
	}
	return f
}

// Line returns a token followed by its ancestors. whole is false if an ancestor is missing, or if there are
// more than ParentsMax. Such a token is not valid.
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

// Valid reports whether a token and all of its ancestors are valid now.
func (f Family) Valid(t *Token, now dag.Micros) bool {
	if t.Parent == 0 {
		return t.Valid(now)
	}
	is := *t // a copy, so that t need not be on the heap
	line, whole := f.Line(&is)
	for _, one := range line {
		whole = whole && one.Valid(now)
	}
	return whole
}

// Stays reports whether the token with an ID and all of its ancestors are valid now and have no successor. A
// token with a successor ends soon, together with the tokens that it made.
func (f Family) Stays(id int64, now dag.Micros) bool {
	line, whole := f.Line(f[id])
	for _, one := range line {
		whole = whole && one.Replaced == 0 && one.Valid(now)
	}
	return whole
}

// End returns the time at which a token ends: its own end, or an earlier end of one of its ancestors. 0 means
// no end.
func (f Family) End(t *Token) (end dag.Micros) {
	line, _ := f.Line(t)
	for _, one := range line {
		if end == 0 || one.Expires != 0 && one.Expires < end {
			end = one.Expires
		}
	}
	return end
}

// IsAbove reports whether the token of an ID is an ancestor of another token.
func (f Family) IsAbove(id int64, t *Token) bool {
	line, _ := f.Line(t)
	for _, one := range line[1:] {
		if one.ID == id {
			return true
		}
	}
	return false
}
