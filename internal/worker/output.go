//go:build linux

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"skein.dev/skein/internal/output"
)

// outputsMaxDefault is the bound of Job.OutputsMax in bytes.
const outputsMaxDefault = output.BytesMax

// takeOutputs reads what a successful attempt left at path. The task owns that place and may have put
// anything there, so nothing but a regular file is read, without following and without waiting. No path: it
// left nothing.
func takeOutputs(path string, sizeMax int, types map[string]string) (json.RawMessage, error) {
	if sizeMax <= 0 {
		sizeMax = outputsMaxDefault
	}
	var data []byte
	if path != "" {
		var err error
		if data, err = readRegular(path, sizeMax); err != nil {
			return nil, err
		}
	}
	return output.Parse(data, types)
}

func readRegular(path string, sizeMax int) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil, nil
	case errors.Is(err, unix.ELOOP):
		return nil, errors.New("$SKEIN_OUTPUT was replaced by a symbolic link: append to it, do not replace it")
	case errors.Is(err, unix.ENXIO): // a socket
		return nil, errors.New("$SKEIN_OUTPUT is not a regular file")
	case err != nil:
		return nil, fmt.Errorf("$SKEIN_OUTPUT cannot be read: %w", err)
	}
	file := os.NewFile(uintptr(fd), path)
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return nil, fmt.Errorf("$SKEIN_OUTPUT cannot be read: %w", err)
	}
	if st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, errors.New("$SKEIN_OUTPUT is not a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(file, int64(sizeMax)+1))
	if err != nil {
		return nil, fmt.Errorf("$SKEIN_OUTPUT cannot be read: %w", err)
	}
	if len(data) > sizeMax {
		return nil, fmt.Errorf("the outputs are larger than %d bytes: keep large results in an artifact and give its name", sizeMax)
	}
	return data, nil
}
