package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/skepdb/skep/node"
	"github.com/spf13/cobra"
)

// start is the verb that runs a process of a cluster until it is told to end.
func (a *app) start() *cobra.Command {
	var o node.StartOptions
	var verbose bool
	var web string
	c := &cobra.Command{
		Use:   "start",
		Short: "Run a process of a cluster: a master, a worker, or both in one",
		Long: "Start runs a process of a cluster until Ctrl-C or SIGTERM ends it. One process is the master (role all or\n" +
			"master); workers join it at the address of any process of the cluster. Regions live in the workers' data folders\n" +
			"(and, with role all, in the master's). Until connections are encrypted, processes listen on loopback addresses only.",
		Example: "  skep start --data d0\n" +
			"  skep start --role master --data d0 --listen 127.0.0.1:7070\n" +
			"  skep start --role worker --data d1 --join 127.0.0.1:7070\n" +
			"  skep start --role worker --data d2 --data /disk2/d2 --join 127.0.0.1:7070 --slots 4 --rack r1",
		Args: arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			level := slog.LevelInfo
			if verbose {
				level = slog.LevelDebug
			}
			o.Logger = slog.New(slog.NewTextHandler(a.err, &slog.HandlerOptions{Level: level}))
			return a.serve(c.Context(), o, web)
		},
	}
	f := c.Flags()
	f.StringVar(&o.Role, "role", node.RoleAll, "all, master or worker")
	f.StringArrayVar(&o.Data, "data", nil, "data folder; may be given several times (default "+node.DefaultData+")")
	f.StringVar(&o.Listen, "listen", "", "HOST:PORT to listen on (default "+node.DefaultListen+"; a worker: any free port)")
	f.StringSliceVar(&o.Join, "join", nil, "HOST:PORT of a process of the cluster, for workers; several separated by commas")
	f.IntVar(&o.Slots, "slots", 0, "attempts that run at once (default: one a processor)")
	f.StringVar(&o.Rack, "rack", "", "name of the rack that the machine is in")
	f.StringVar(&o.Hostname, "hostname", "", "what the machine is called (default: the system's name)")
	f.StringVar(&web, "http", "", "HOST:PORT where a master serves exports over HTTP (default: nowhere)")
	f.BoolVar(&verbose, "verbose", false, "log more")
	return c
}

// serve runs a process until a signal, or until it can't go on.
func (a *app) serve(ctx context.Context, o node.StartOptions, web string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	began := time.Now()
	p, err := node.Start(ctx, o)
	if err != nil {
		return err
	}
	if p.Node != nil {
		if _, err := p.Node.FollowExports(); err != nil {
			return closeWith(p, err)
		}
	}
	if web != "" {
		if p.Node == nil {
			return closeWith(p, usagef("--http: a worker has no exports, its master has"))
		}
		h, err := p.Node.ServeHTTP(web)
		if err != nil {
			return closeWith(p, err)
		}
		defer func() { _ = h.Close() }() // the process ends
		fmt.Fprintf(a.out, "exports at http://%s/exports\n", h.Address())
	}
	// Scripts wait for this line.
	if _, err := fmt.Fprintf(a.out, "skep %s of cluster %s listens on %s (%s)\n", o.Role, p.Cluster(), p.Address(), time.Since(began).Round(time.Millisecond)); err != nil {
		return closeWith(p, err)
	}
	select {
	case <-ctx.Done():
	case <-p.Done():
		return closeWith(p, p.Err())
	}
	return p.Close()
}

func closeWith(p *node.Process, err error) error {
	if cerr := p.Close(); err == nil {
		err = cerr
	}
	return err
}
