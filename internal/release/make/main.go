// Program make makes a release of Breakwater: see package release. It is run by
// make release and is no part of the product.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/breakwaterhq/breakwater/internal/release"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	cfg := release.Config{Log: os.Stderr}
	flag.StringVar(&cfg.Root, "root", ".", "folder of the module")
	flag.StringVar(&cfg.Out, "out", "dist", "folder for the release; what is in it goes")
	flag.StringVar(&cfg.Version, "version", "", "version to stamp")
	flag.StringVar(&cfg.NFPM, "nfpm", "", "program that makes packages; none are made without")
	flag.StringVar(&cfg.Downloads, "downloads", "", "https address of the folder that the archives will be in, for the formula")
	flag.StringVar(&cfg.SignKey, "sign-key", "", "file with an SSH key that signs the checksums; nothing is signed without")
	flag.StringVar(&cfg.Go, "go", "go", "the go command")
	targets := flag.String("targets", "", "targets such as linux/amd64,darwin/arm64; host means this machine, nothing means all")
	seconds := flag.Int64("time", 0, "time of every file, in seconds since 1970")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	var err error
	if cfg.Targets, err = release.ParseTargets(*targets); err != nil {
		return err
	}
	cfg.Time = time.Unix(*seconds, 0)
	return release.Run(ctx, cfg)
}
