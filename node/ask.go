package node

import (
	"context"
	"errors"

	"github.com/skepdb/skep/cluster/rpc"
	"github.com/skepdb/skep/jobs/wire"
	schedulerclient "github.com/skepdb/skep/scheduler/client"
	storagewire "github.com/skepdb/skep/storage/wire"
)

// ClusterNode is a process of a cluster.
type ClusterNode = schedulerclient.Node

// Cluster is a connection to a cluster's master.
type Cluster struct {
	*schedulerclient.Client
	conn *rpc.Conn
}

// Connect connects to the master of the cluster that the process at address, any of
// it, belongs to. The caller closes the connection.
func Connect(ctx context.Context, address string) (*Cluster, error) {
	dial := rpc.DialOptions{Identity: rpc.Identity{Version: Version(), Role: "client"}, Errors: storagewire.Errors()}
	master, _, err := findMaster(ctx, []string{address}, dial)
	if err != nil {
		return nil, err
	}
	conn, err := rpc.Dial(ctx, master, dial)
	if err != nil {
		return nil, err
	}
	return &Cluster{Client: schedulerclient.New(conn, wire.Codec{Registry: Registry()}), conn: conn}, nil
}

// Conn returns the connection, for other services of the master.
func (c *Cluster) Conn() *rpc.Conn { return c.conn }

// Close ends the connection.
func (c *Cluster) Close() error { return c.conn.Close() }

// ListNodes returns the processes of a cluster, asking the one at address.
func ListNodes(ctx context.Context, address string) (_ []ClusterNode, err error) {
	c, err := Connect(ctx, address)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return c.Nodes(ctx)
}
