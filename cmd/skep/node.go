package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/skepdb/skep/node"
	"github.com/spf13/cobra"
)

// node is the verbs about the processes of a cluster.
func (a *app) node() *cobra.Command {
	c := &cobra.Command{
		Use:     "node",
		Short:   "Look at the processes of a cluster",
		Example: "  skep node list --server 127.0.0.1:7070",
	}
	c.AddCommand(a.nodeList())
	return c
}

func (a *app) nodeList() *cobra.Command {
	var server string
	var asJSON bool
	c := &cobra.Command{
		Use:   "list",
		Short: "List the processes of a cluster: who they are, and whether they are there",
		Long: "List shows the processes of a cluster. A worker is up while it has a line to the master, silent while its lease\n" +
			"goes on without one, and lost after that: its regions can't be read until it is back.",
		Example: "  skep node list\n  skep node list --server 127.0.0.1:7070 --json",
		Args:    arguments(cobra.NoArgs),
		RunE: func(c *cobra.Command, _ []string) error {
			nodes, err := node.ListNodes(c.Context(), server)
			if err != nil {
				return err
			}
			if asJSON {
				return a.nodesJSON(nodes)
			}
			t := table.NewWriter()
			t.SetStyle(table.StyleLight)
			t.Style().Options = table.OptionsNoBordersAndSeparators
			t.AppendHeader(table.Row{"ROLE", "STATE", "ADDRESS", "HOST", "RACK", "SLOTS", "RUNNING", "FOLDERS", "HEARD", "ID"})
			for _, n := range nodes {
				heard := "-"
				if n.Role == node.RoleWorker {
					heard = n.Heard.Round(100*time.Millisecond).String() + " ago"
				}
				t.AppendRow(table.Row{n.Role, n.State, n.Address, n.Host, n.Rack, n.Slots, n.Running, n.Folders, heard, n.ID})
			}
			_, err = fmt.Fprintln(a.out, t.Render())
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&server, "server", node.DefaultListen, "HOST:PORT of a process of the cluster")
	f.BoolVar(&asJSON, "json", false, "a JSON object a line")
	return c
}

// nodesJSON prints an object a line; times are milliseconds.
func (a *app) nodesJSON(nodes []node.ClusterNode) error {
	enc := json.NewEncoder(a.out)
	for _, n := range nodes {
		if err := enc.Encode(struct {
			ID      string `json:"id"`
			Name    string `json:"name"`
			Role    string `json:"role"`
			State   string `json:"state"`
			Address string `json:"address"`
			Host    string `json:"host"`
			Rack    string `json:"rack"`
			Slots   int    `json:"slots"`
			Running int    `json:"running"`
			Folders int    `json:"folders"`
			Heard   int64  `json:"heard_ms"`
			Since   int64  `json:"since_ms"`
		}{string(n.ID), n.Name, n.Role, n.State, n.Address, n.Host, n.Rack, n.Slots, n.Running, n.Folders, n.Heard.Milliseconds(), n.Since.Milliseconds()}); err != nil {
			return err
		}
	}
	return nil
}
