package main

import (
	"strings"
	"testing"

	"skein.dev/skein/sdk/skeintest"
)

func TestPrice(t *testing.T) {
	w := skeintest.New(t, register)
	r := w.Run(skeintest.Task{Kind: "orders.price", With: Order{"bread", 2}, Outputs: map[string]string{"cents": "int"}})
	if got := skeintest.Outputs[Price](t, r); got.Cents != 640 || !strings.Contains(r.Log, "item=bread") {
		t.Errorf("%+v, log %s", got, r.Log)
	}
	r = w.Run(skeintest.Task{Kind: "orders.price", With: Order{"gold", 1}})
	if r.State != skeintest.Failed || r.Cause != "permanent" || r.Retried {
		t.Errorf("%+v", r)
	}
}

func TestInvoice(t *testing.T) {
	r := skeintest.New(t, register).Run(skeintest.Task{Kind: "orders.invoice", With: Invoice{[]string{"a", "b"}, []int{3, 4}}})
	if got := skeintest.Outputs[Total](t, r); got.Cents != 7 || !strings.Contains(r.Log, "progress 2/2 b") {
		t.Errorf("%+v, log %s", got, r.Log)
	}
}
