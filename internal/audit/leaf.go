package audit

import (
	"encoding/hex"
	"strconv"

	"github.com/transparency-dev/merkle/rfc6962"

	"skein.dev/skein/internal/store"
)

// leafFormat is the first field of every leaf. It changes if the fields change.
const leafFormat = "skein audit 1"

// Leaf returns the data of a row's leaf: the fields as netstrings (LENGTH:BYTES,). So two different rows
// never have the same data. Numbers are decimal. The data do not include the index, because the order of the
// tree determines the index.
func Leaf(r *store.Audit) []byte {
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	data := make([]byte, 0, 256)
	for _, field := range [...]string{
		leafFormat, hex.EncodeToString(r.Key[:]), number(int64(r.At)), number(int64(r.Last)), number(r.Count),
		r.Principal, r.Kind, number(r.Token), number(r.Session), r.Address,
		r.Verb, r.Action, r.Object, r.Namespace, r.Outcome, r.Request, r.Detail,
	} {
		data = strconv.AppendInt(data, int64(len(field)), 10)
		data = append(data, ':')
		data = append(data, field...)
		data = append(data, ',')
	}
	return data
}

// Hash returns the hash of a row's leaf.
func Hash(r *store.Audit) []byte { return rfc6962.DefaultHasher.HashLeaf(Leaf(r)) }
