package trace

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/encoding/protowire"
)

// exportProcedure is the call of OTLP over gRPC.
const exportProcedure = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"

// frame is a message in its binary form.
type frame struct{ data []byte }

// binaryCodec passes messages that are binary already.
type binaryCodec struct{}

func (binaryCodec) Name() string { return "proto" }

func (binaryCodec) Marshal(m any) ([]byte, error) { return m.(*frame).data, nil }

func (binaryCodec) Unmarshal(data []byte, m any) error {
	m.(*frame).data = append([]byte(nil), data...)
	return nil
}

// rpc makes the client of a collector with gRPC.
func rpc(client *http.Client, address string) *connect.Client[frame, frame] {
	if u, err := url.Parse(address); err == nil { // the path in the URL is for HTTP
		address = u.Scheme + "://" + u.Host
	}
	return connect.NewClient[frame, frame](client, address+exportProcedure, connect.WithGRPC(), connect.WithCodec(binaryCodec{}),
		connect.WithSendGzip(), connect.WithReadMaxBytes(answerMax))
}

// call calls the collector once over gRPC. It returns the number of spans that the collector refused.
func (x *Exporter) call(ctx context.Context, spans []span) (refused int64, err error) {
	req := connect.NewRequest(&frame{x.request(spans).protobuf()})
	if err := headers(x.cfg.HeadersFile, req.Header()); err != nil {
		return 0, err
	}
	req.Header().Set("User-Agent", "Skein/"+x.cfg.Version)
	resp, err := x.rpc.CallUnary(ctx, req)
	if err != nil {
		return 0, x.meaning(err)
	}
	refused, why := partial(resp.Msg.data)
	return x.refused(refused, why, len(spans)), nil
}

// meaning turns an error of gRPC into an error of this package, as OTLP says which calls to repeat.
func (x *Exporter) meaning(err error) error {
	said := fmt.Errorf("%s answered %s", x.cfg.URL, bounded(err.Error()))
	switch connect.CodeOf(err) {
	case connect.CodeInvalidArgument, connect.CodeUnimplemented, connect.CodeNotFound, connect.CodeFailedPrecondition, connect.CodeAlreadyExists:
		return fmt.Errorf("%w: %w", errRefused, said)
	case connect.CodeResourceExhausted:
		if after, again := retryInfo(err); again {
			return &againError{said, after}
		}
		return fmt.Errorf("%w: %w", errExhausted, said)
	case connect.CodeInternal, connect.CodeUnknown:
		return fmt.Errorf("%w: %w", errBroken, said)
	case connect.CodeUnavailable:
		after, _ := retryInfo(err)
		return &againError{said, after}
	}
	return said // such as a refused token, or a timeout
}

// retryInfo returns the pause of the detail RetryInfo, and whether the answer has that detail.
func retryInfo(err error) (after time.Duration, has bool) {
	var is *connect.Error
	if !errors.As(err, &is) {
		return 0, false
	}
	for _, d := range is.Details() {
		if d.Type() != "google.rpc.RetryInfo" {
			continue
		}
		has = true
		fields(d.Bytes(), func(n protowire.Number, _ uint64, delay []byte) {
			if n == 1 {
				fields(delay, func(n protowire.Number, number uint64, _ []byte) {
					switch n {
					case 1:
						after += time.Duration(min(number, 3600)) * time.Second
					case 2:
						after += time.Duration(min(number, 1e9))
					}
				})
			}
		})
	}
	return after, has
}
