package layout

import "encoding/binary"

// MediaType names the packed form of a drawing.
const MediaType = "application/vnd.skein.layout"

// Task holds what a drawing shows of a task, except for its position.
type Task struct {
	Name string
	Kind uint8 // an index into the names of kinds
}

// Pack writes a drawing:
//
//	"SKL1", u32 tasks, u32 edges, u32 columns, all little-endian
//	u8 kinds, then each name of a kind with a NUL after it
//	by task: zigzag varint of the column minus that of the task before, the same of y in quarters of a pixel, u8 kind
//	by task: varint number of needs, then a zigzag varint of (task - need) for each
//	by task: varint of the bytes that its name shares with the name before, the rest of the name, NUL
//
// Sections of PackMembers and PackChanges may follow.
func Pack(g *Graph, l *Layout, kinds []string, task func(t int) Task) []byte {
	n := g.Len()
	b := make([]byte, 0, 32+n*12+len(g.Needs)*3)
	b = append(b, "SKL1"...)
	b = binary.LittleEndian.AppendUint32(b, uint32(n))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(g.Needs)))
	b = binary.LittleEndian.AppendUint32(b, uint32(l.Columns))
	b = append(b, byte(len(kinds)))
	for _, k := range kinds {
		b = append(append(b, k...), 0)
	}
	column, y := int32(0), int32(0)
	for t := range n {
		b = binary.AppendVarint(b, int64(l.Column[t]-column))
		b = binary.AppendVarint(b, int64(l.Y[t]-y))
		b = append(b, task(t).Kind)
		column, y = l.Column[t], l.Y[t]
	}
	for t := range n {
		needs := g.needs(t)
		b = binary.AppendUvarint(b, uint64(len(needs)))
		for _, p := range needs {
			b = binary.AppendVarint(b, int64(t)-int64(p))
		}
	}
	before := ""
	for t := range n {
		name := task(t).Name
		same := shared(before, name)
		b = binary.AppendUvarint(b, uint64(same))
		b = append(append(b, name[same:]...), 0)
		before = name
	}
	return b
}

// shared counts the bytes that two names begin with.
func shared(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// PackMembers appends to a packed drawing which tasks its nodes stand for:
//
//	"M", by node: varint number of tasks, then a zigzag varint of (task - task before) for each
func PackMembers(b []byte, members [][]int32) []byte {
	b = append(b, 'M')
	before := int32(0)
	for _, list := range members {
		b = binary.AppendUvarint(b, uint64(len(list)))
		for _, t := range list {
			b = binary.AppendVarint(b, int64(t)-int64(before))
			before = t
		}
	}
	return b
}

// PackChanges appends to a packed drawing how it differs from another one:
//
//	"C", by node: u8 change, then by edge in the order of the drawing: u8 change
func PackChanges(b []byte, nodes, edges []Change) []byte {
	b = append(b, 'C')
	for _, list := range [][]Change{nodes, edges} {
		for _, c := range list {
			b = append(b, byte(c))
		}
	}
	return b
}
