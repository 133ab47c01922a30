// Command breakwater accepts events over HTTP and delivers them as signed
// webhooks. All of it is in package cli.
package main

import (
	"os"

	"github.com/breakwaterhq/breakwater/internal/cli"
)

func main() {
	os.Exit(cli.Run(cli.Host{
		Args: os.Args[1:], Environ: os.Environ(),
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
	}))
}
