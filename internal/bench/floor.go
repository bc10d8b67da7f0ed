package bench

import (
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Floor measures bare fork and exec: the number of `sh -c true` a second, with atOnce of them at a time.
func Floor(ctx context.Context, n, atOnce int, argv []string) (float64, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return 0, fmt.Errorf("bench: %w", err)
	}
	defer null.Close()
	path, err := look(argv[0])
	if err != nil {
		return 0, err
	}
	var left atomic.Int64
	left.Store(int64(n))
	errs := make(chan error, atOnce)
	var wg sync.WaitGroup
	began := time.Now()
	for range atOnce {
		wg.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				if err := once(path, argv, null); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	seconds := time.Since(began).Seconds()
	close(errs)
	if err := <-errs; err != nil {
		return 0, fmt.Errorf("bench: bare fork and exec: %w", err)
	}
	return float64(n) / seconds, ctx.Err()
}

func look(program string) (string, error) {
	for _, dir := range []string{"/bin/", "/usr/bin/"} {
		if _, err := os.Stat(dir + program); err == nil {
			return dir + program, nil
		}
	}
	return "", fmt.Errorf("bench: there is no program %q", program)
}
