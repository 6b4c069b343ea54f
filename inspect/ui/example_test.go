package ui_test

import (
	"log"
	"net/http"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/inspect/ui"
)

// The pages are part of a program's own server, below /locks/, behind what guards its pages for operators.
func ExampleNew() {
	var (
		locks          *holdfast.Client                  // such as holdfastgoredis.New returns
		forOperators   func(h http.Handler) http.Handler // lets only operators pass
		mux            = http.NewServeMux()
		inspector, err = ui.New(inspect.New(locks), &ui.Options{Prefix: "/locks", Hosts: []string{"ops.example.com"}})
	)
	if err != nil {
		log.Fatal(err)
	}
	mux.Handle("/locks/", forOperators(inspector))
	server := &http.Server{Addr: "127.0.0.1:8080", Handler: mux}
	server.RegisterOnShutdown(inspector.Close)
	log.Fatal(server.ListenAndServe())
}
