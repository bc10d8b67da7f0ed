package postgres

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5/pgconn"

	"skein.dev/skein/internal/store"
)

// copyBuffer is the number of bytes of a COPY that are sent at once.
const copyBuffer = 256 << 10

// copying is a COPY … FROM STDIN in binary form under way.
type copying struct {
	table string
	pipe  *io.PipeWriter
	buf   *bufio.Writer
	ended chan struct{} // closed when the database has answered
	err   error         // valid after ended
}

func startCopy(ctx context.Context, conn *pgconn.PgConn, table, sql string) *copying {
	from, to := io.Pipe()
	c := &copying{table: table, pipe: to, buf: bufio.NewWriterSize(to, copyBuffer), ended: make(chan struct{})}
	go func() {
		defer close(c.ended)
		_, c.err = conn.CopyFrom(ctx, from, sql)
		_ = from.CloseWithError(io.ErrClosedPipe) // the next write then notices that there is an answer
	}()
	// The header of the binary form: signature, flags, length of the extension.
	_, _ = c.buf.WriteString("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	return c
}

// write sends a row. If the database has answered with an error, write returns that error.
func (c *copying) write(row []byte) error {
	_, err := c.buf.Write(row)
	if err == nil {
		return nil
	}
	<-c.ended
	if c.err != nil {
		err = c.err
	}
	return c.failed(err)
}

// failed returns an error of a COPY as final, because the error ends the whole transaction.
func (c *copying) failed(err error) error {
	if err = translate("copy rows into "+c.table, err); errors.Is(err, store.ErrRefused) {
		return fmt.Errorf("%w: %s", store.ErrFormat, err.Error())
	}
	return err
}

// finish sends the end of the COPY and waits for the answer.
func (c *copying) finish() error {
	_, _ = c.buf.Write([]byte{0xff, 0xff})
	_ = c.buf.Flush() // this fails if the database has already answered; then its answer is returned
	_ = c.pipe.Close()
	<-c.ended
	return c.failed(c.err)
}

// abandon cancels the COPY.
func (c *copying) abandon(why error) {
	_ = c.pipe.CloseWithError(why)
	<-c.ended
}
