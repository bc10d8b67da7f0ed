package app

import (
	"errors"
	"net"
	"strings"
	"testing"

	"skein.dev/skein/internal/config"
)

func TestListen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	address := taken.Addr().String()
	if l, err := listen(&config.Config{Listen: address, ListenChosen: true}); !errors.Is(err, ErrListen) || !strings.Contains(err.Error(), address) {
		t.Errorf("a chosen port in use: %v, %v", l, err)
	}
	l, err := listen(&config.Config{Listen: address})
	if err != nil || l.Addr().String() == address {
		t.Errorf("nobody's choice: %v, %v", l, err)
	}
	_ = l.Close()
}
