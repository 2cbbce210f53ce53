package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/skepdb/skep/client"
	"github.com/spf13/cobra"
)

// placeFlags say where the engine is: in this process over data folders, or at a
// server. Flags come before the environment (SKEP_SERVER, SKEP_DATA), which comes
// before the default.
type placeFlags struct {
	data        []string
	server      string
	acceptClock bool
}

// Names of the environment's variables.
const (
	envServer = "SKEP_SERVER"
	envData   = "SKEP_DATA"
)

func (f *placeFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&f.data, "data", nil, "a data `folder`; may be repeated (default $"+envData+", or "+client.DefaultData+")")
	c.Flags().StringVar(&f.server, "server", "", "ask the server at this `host:port` instead of opening data folders (default $"+envServer+")")
	c.Flags().BoolVar(&f.acceptClock, "accept-clock-jump", false, "the clock is right, though years after the last write to the data folder")
}

// addDataFlag adds --data to a verb that opens data folders itself.
func addDataFlag(c *cobra.Command, data *[]string) {
	c.Flags().StringArrayVar(data, "data", nil, "a data `folder`; may be repeated (default "+client.DefaultData+")")
}

// resolve fills in what the environment says.
func (f placeFlags) resolve(getenv func(string) string) (placeFlags, error) {
	switch {
	case f.server != "" && len(f.data) > 0:
		return f, usagef("--server and --data exclude each other: a server has data folders of its own")
	case f.server != "" || len(f.data) > 0:
		return f, nil
	}
	server, data := getenv(envServer), getenv(envData)
	switch {
	case server != "" && data != "":
		return f, usagef("%s and %s are both set: unset one, or say --server or --data", envServer, envData)
	case server != "":
		f.server = server
	case data != "":
		f.data = filepath.SplitList(data)
	}
	return f, nil
}

// open connects to the server, or opens the data folders.
func (f placeFlags) open(ctx context.Context, mustExist bool) (*client.Client, error) {
	f, err := f.resolve(os.Getenv)
	if err != nil {
		return nil, err
	}
	if f.server != "" {
		return client.Connect(ctx, f.server, client.ConnectOptions{})
	}
	return client.Open(ctx, client.Options{Data: f.data, MustExist: mustExist, AcceptClockJump: f.acceptClock})
}
