package home

import (
	"context"
	"errors"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"

	workerv1 "skein.dev/skein/sdk/api/worker/v1"
	"skein.dev/skein/sdk/shared/line"
)

// LinePath is the path at which workers open a line: a connection on which they send calls of Report without
// separate requests.
const LinePath = Prefix + line.Path

// overLine answers a Report that came over a line.
func (h *Home) overLine(ctx context.Context, call []byte) ([]byte, error) {
	in := &workerv1.ReportRequest{}
	if err := proto.Unmarshal(call, in); err != nil {
		h.Stats.rejected[Unreadable].Add(1)
		return nil, &line.Refused{Code: uint32(connect.CodeInvalidArgument), Text: "what came over the line is no report"}
	}
	err := h.speaks(ctx, in)
	var out *workerv1.ReportResponse
	if err == nil {
		out, err = (&desk{h}).Report(ctx, in)
	}
	if err != nil {
		text := err.Error()
		if is := new(connect.Error); errors.As(err, &is) {
			text = is.Message()
		}
		return nil, &line.Refused{Code: uint32(connect.CodeOf(err)), Text: text}
	}
	return proto.Marshal(out)
}
