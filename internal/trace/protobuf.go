package trace

import (
	"encoding/hex"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of OTLP in their binary form. The numbers of the fields are those of trace.proto,
// common.proto and resource.proto of OpenTelemetry, which never change.

// message builds one message.
type message []byte

func (m *message) text(field protowire.Number, s string) {
	if s != "" {
		*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), s)
	}
}

// id adds an id that is written as hexadecimal digits.
func (m *message) id(field protowire.Number, digits string) {
	if b, err := hex.DecodeString(digits); err == nil && len(b) > 0 {
		*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
	}
}

func (m *message) number(field protowire.Number, n int64) {
	if n != 0 {
		*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(n))
	}
}

// fixed adds a number that is written as decimal digits.
func (m *message) fixed(field protowire.Number, digits string) {
	n, _ := strconv.ParseUint(digits, 10, 64) // nanos made the digits
	*m = protowire.AppendFixed64(protowire.AppendTag(*m, field, protowire.Fixed64Type), n)
}

func (m *message) message(field protowire.Number, build func(*message)) {
	var inner message
	build(&inner)
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), inner)
}

func (m *message) attributes(field protowire.Number, all []attribute) {
	for i := range all {
		a := &all[i]
		m.message(field, func(m *message) {
			m.text(1, a.Key)
			m.message(2, func(m *message) {
				switch {
				case a.Value.Number != nil:
					// The text comes from setNumber, so it is a number. Zero is written too, because it is a value.
					n, _ := strconv.ParseInt(*a.Value.Number, 10, 64)
					*m = protowire.AppendVarint(protowire.AppendTag(*m, 3, protowire.VarintType), uint64(n))
				case a.Value.Text != nil:
					*m = protowire.AppendString(protowire.AppendTag(*m, 1, protowire.BytesType), *a.Value.Text)
				}
			})
		})
	}
}

// protobuf returns the request in its binary form.
func (r *exportRequest) protobuf() []byte {
	var m message
	for i := range r.ResourceSpans {
		rs := &r.ResourceSpans[i]
		m.message(1, func(m *message) {
			m.message(1, func(m *message) { m.attributes(1, rs.Resource.Attributes) })
			for j := range rs.ScopeSpans {
				ss := &rs.ScopeSpans[j]
				m.message(2, func(m *message) {
					m.message(1, func(m *message) { m.text(1, ss.Scope.Name); m.text(2, ss.Scope.Version) })
					for k := range ss.Spans {
						m.message(2, ss.Spans[k].protobuf)
					}
				})
			}
		})
	}
	return m
}

func (s *span) protobuf(m *message) {
	m.id(1, s.TraceID)
	m.id(2, s.SpanID)
	m.id(4, s.ParentID)
	m.text(5, s.Name)
	m.number(6, int64(s.Kind))
	m.fixed(7, s.Start)
	m.fixed(8, s.End)
	m.attributes(9, s.Attributes)
	for _, e := range s.Events {
		m.message(11, func(m *message) { m.fixed(1, e.At); m.text(2, e.Name) })
	}
	for _, l := range s.Links {
		m.message(13, func(m *message) { m.id(1, l.TraceID); m.id(2, l.SpanID) })
	}
	m.message(15, func(m *message) { m.text(2, s.Status.Message); m.number(3, int64(s.Status.Code)) })
}

// partial reads the refused spans of an answer in its binary form. An answer that cannot be read refuses
// none.
func partial(answer []byte) (refused int64, why string) {
	fields(answer, func(n protowire.Number, _ uint64, inner []byte) {
		if n != 1 {
			return
		}
		fields(inner, func(n protowire.Number, number uint64, text []byte) {
			switch n {
			case 1:
				refused = int64(number)
			case 2:
				why = string(text)
			}
		})
	})
	return refused, why
}

// fields calls see with each field of a message. It ends at the first field that cannot be read.
func fields(m []byte, see func(n protowire.Number, number uint64, text []byte)) {
	for len(m) > 0 {
		n, kind, size := protowire.ConsumeTag(m)
		if size < 0 {
			return
		}
		var number uint64
		var text []byte
		rest := m[size:]
		switch kind {
		case protowire.VarintType:
			number, size = protowire.ConsumeVarint(rest)
		case protowire.Fixed64Type:
			number, size = protowire.ConsumeFixed64(rest)
		case protowire.BytesType:
			text, size = protowire.ConsumeBytes(rest)
		default:
			size = protowire.ConsumeFieldValue(n, kind, rest)
		}
		if size < 0 {
			return
		}
		see(n, number, text)
		m = rest[size:]
	}
}
