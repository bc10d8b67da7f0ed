package postgres

import (
	"regexp"
	"strconv"
	"strings"
)

// A statement for many rows has a second form for one row, whose text is made from the text of the statement.
// In it, single values replace the arrays, and no array is unnested. In a small transaction, the database
// spends most of its time on beginning and ending statements, and the form for one row costs half of that.

// single returns the name of a statement's form for one row.
func single(name string) string { return name + " of one" }

var (
	unnested  = regexp.MustCompile(`unnest\(([^()]*)\)\s+x \(`)
	coalesced = regexp.MustCompile(`coalesce\(x\.(\w+), \$\d+`)
	alone     = regexp.MustCompile(`coalesce\((x\.\w+)\)`)
	parameter = regexp.MustCompile(`\$(\d+)`)
)

// singular returns the form for one row of a statement that takes arrays of columns, as write.sql has them.
// It returns "" if the statement takes none. In the form, column i is parameter i, and the other parameters
// of the statement follow.
func singular(text string) string {
	arrays := unnested.FindStringSubmatch(text)
	if arrays == nil {
		return ""
	}
	columns := strings.Count(arrays[1], ",") + 1
	text = coalesced.ReplaceAllString(text, "coalesce(x.$1")
	text = alone.ReplaceAllString(text, "$1")
	text = strings.ReplaceAll(text, "cardinality($1)", "1")
	text = unnested.ReplaceAllLiteralString(text, "(VALUES ("+strings.ReplaceAll(arrays[1], "[]", "")+")) x (")
	return parameter.ReplaceAllStringFunc(text, func(p string) string {
		n, _ := strconv.Atoi(p[1:]) // p[1:] consists of digits
		if n < 2*columns {
			n = n/2 + 1
		} else {
			n -= columns - 1
		}
		return "$" + strconv.Itoa(n)
	})
}
