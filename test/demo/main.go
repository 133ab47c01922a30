// Command demo starts a server in the middle of a busy day: endpoints in an outage,
// draining, throttled and paused, with a day of figures behind them and traffic that
// goes on. It is for people who work on the dashboard and want to see something there.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/breakwaterhq/breakwater/test/program"
	"github.com/breakwaterhq/breakwater/test/seed"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8090", "address of the server")
	binary := flag.String("binary", "", "the product; when empty it is built")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *binary, *listen, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, binary, listen string, out io.Writer) error {
	dir, err := os.MkdirTemp("", "breakwater-demo")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if binary == "" {
		if binary, err = program.Build(ctx, dir); err != nil {
			return err
		}
	}
	stage, err := seed.Raise(ctx, binary, dir, listen, os.Stderr)
	if err != nil {
		return err
	}
	defer stage.Strike()
	_, _ = fmt.Fprintf(out, "dashboard %s/ui\n", stage.URL)
	for _, name := range []string{"ops", "viewer", "acme", "globex"} {
		_, _ = fmt.Fprintf(out, "key %-7s %s\n", name, stage.Keys[name])
	}
	<-ctx.Done()
	return nil
}
