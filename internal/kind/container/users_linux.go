package container

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// ids returns the numbers of a user of the container, written as USER or USER:GROUP. Names are those of the
// image. The container exists, and is not started.
func (d *docked) ids(ctx context.Context, text string) (uid, gid int, err error) {
	user, group, grouped := strings.Cut(text, ":")
	if user == "" {
		user = "0"
	}
	uid, errUser := strconv.Atoi(user)
	gid, errGroup := strconv.Atoi(group)
	if errUser != nil || !grouped {
		fields, err := d.entry(ctx, "/etc/passwd", user, 4)
		switch {
		case err != nil:
			return 0, 0, err
		case fields == nil && errUser != nil:
			return 0, 0, fmt.Errorf("the image has no user %s", user)
		case fields != nil:
			uid, err = strconv.Atoi(fields[2])
			own, errOwn := strconv.Atoi(fields[3])
			if err = errors.Join(err, errOwn); err != nil {
				return 0, 0, fmt.Errorf("the image has no numbers of user %s: %w", user, err)
			}
			if !grouped {
				gid = own
			}
		}
	}
	if grouped && errGroup != nil {
		fields, err := d.entry(ctx, "/etc/group", group, 3)
		if err == nil && fields == nil {
			err = fmt.Errorf("the image has no group %s", group)
		}
		if err == nil {
			gid, err = strconv.Atoi(fields[2])
		}
		if err != nil {
			return 0, 0, err
		}
	}
	return uid, gid, nil
}

// tableMax bounds the bytes of /etc/passwd of an image.
const tableMax = 1 << 20

// entry returns the fields of a line with a name or number in a table of the image, or nil if there is none.
func (d *docked) entry(ctx context.Context, table, key string, least int) ([]string, error) {
	resp, err := d.open(ctx, http.MethodGet, "/containers/"+d.id+"/archive?path="+table, nil, nil)
	if isStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	archive := tar.NewReader(resp.Body)
	h, err := archive.Next()
	if err != nil || h.Typeflag != tar.TypeReg {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(archive, tableMax))
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) >= least && (fields[0] == key || fields[2] == key) {
			return fields, nil
		}
	}
	return nil, err
}
