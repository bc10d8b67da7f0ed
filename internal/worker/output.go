//go:build linux

package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"

	"skein.dev/skein/sdk/shared/mask"
	"skein.dev/skein/sdk/shared/output"
)

// outputsMaxDefault is the bound of Job.OutputsMax in bytes.
const outputsMaxDefault = output.BytesMax

// errHoldsSecret is the error of an attempt whose outputs contain a secret. Its text contains no part of the
// outputs.
var errHoldsSecret = errors.New("its outputs hold a secret: write no secret to $SKEIN_OUTPUT, and keep no answer that holds one")

// takeOutputs reads the file that a successful attempt wrote to path. The task may have made a link, a socket
// or a device there. So takeOutputs reads only a regular file, without following links and without waiting.
// If there is no file, the attempt has no outputs. takeOutputs checks for secrets first, so that no part of a
// secret gets into another error.
func takeOutputs(path string, sizeMax int, types map[string]string, masks *mask.Set) (json.RawMessage, error) {
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
	if masks.HoldsOutputs(data) {
		return nil, errHoldsSecret
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
	case errors.Is(err, unix.ENXIO): // the file is a socket
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
