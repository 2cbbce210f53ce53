package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/google/uuid"
	"github.com/skepdb/skep/internal/fault"
	"github.com/skepdb/skep/storage/folder"
)

// clusterFile is in the data folders of processes of a cluster; docs/format/node.md
// describes it.
const clusterFile = "CLUSTER"

// Roles of a process.
const (
	RoleAll    = "all" // master and worker
	RoleMaster = "master"
	RoleWorker = "worker"
)

// belonging is the content of a CLUSTER file: which cluster a folder is part of,
// and what its process is there.
type belonging struct {
	Cluster string `json:"cluster"`
	Role    string `json:"role"`
}

func readBelonging(f *folder.Folder) (b belonging, err error) {
	text, err := readFile(f.FS(), f.Path(clusterFile))
	if errors.Is(err, fs.ErrNotExist) {
		return belonging{}, nil
	}
	if err != nil {
		return b, err
	}
	if err := json.Unmarshal(text, &b); err != nil || b.Cluster == "" || b.Role != RoleAll && b.Role != RoleMaster && b.Role != RoleWorker {
		return b, fault.Userf("%s: want a cluster's id and a role, found %.80q", f.Path(clusterFile), text)
	}
	return b, nil
}

func writeBelonging(f *folder.Folder, b belonging) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	if err := folder.WriteFile(f.FS(), f.Dir(), clusterFile, append(text, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", f.Path(clusterFile), err)
	}
	return nil
}

// checkRole refuses folders that have another role: a worker's regions mean nothing
// without its master's catalogue, nor a master's catalogue without its workers' regions.
func checkRole(own []ownFolders, role string) (cluster string, err error) {
	for _, o := range own {
		for _, f := range o.folders {
			b, err := readBelonging(f)
			if err != nil {
				return "", err
			}
			switch {
			case b.Cluster == "":
			case role == "" && b.Role != RoleAll:
				return "", &fault.Error{Class: fault.User, SQLState: "55000",
					Message: fmt.Sprintf("data folder %s belongs to a %s of a cluster", f.Dir(), b.Role),
					Hint:    fmt.Sprintf("start it with skep start --role %s --data %s, and ask the cluster with --server", b.Role, f.Dir())}
			case role != "" && b.Role != role:
				return "", fault.Userf("data folder %s belongs to a process of role %s: it can't be of role %s", f.Dir(), b.Role, role)
			case cluster != "" && b.Cluster != cluster:
				return "", fault.Userf("data folder %s belongs to another cluster than the folders beside it", f.Dir())
			default:
				cluster = b.Cluster
			}
		}
	}
	return cluster, nil
}

// claim notes in all folders which cluster they belong to.
func claim(own []ownFolders, cluster, role string) error {
	for _, o := range own {
		for _, f := range o.folders {
			b, err := readBelonging(f)
			if err != nil {
				return err
			}
			if b.Cluster != "" {
				continue
			}
			if err := writeBelonging(f, belonging{Cluster: cluster, Role: role}); err != nil {
				return err
			}
		}
	}
	return nil
}

// openFolders opens the node's folders and learns which cluster they belong to.
func (n *Node) openFolders() error {
	role := ""
	if n.cluster != nil {
		role = n.cluster.o.Role
	}
	var err error
	if role == RoleMaster {
		n.own, err = openMasterFolder(n.o)
	} else {
		n.own, err = openFolders(n.o)
	}
	if err != nil {
		return err
	}
	id, err := checkRole(n.own, role)
	if err != nil || n.cluster == nil {
		return err
	}
	if id == "" {
		id = uuid.NewString()
	}
	n.cluster.id = id
	return claim(n.own, id, role)
}

// openMasterFolder opens the folder of a master without regions.
func openMasterFolder(o Options) ([]ownFolders, error) {
	if len(o.Data) != 1 {
		return nil, fault.Userf("a master has one data folder, %d are given: regions are the workers'", len(o.Data))
	}
	f, err := folder.Open(o.FS, o.Data[0], folder.Options{Command: o.Command, Now: o.Now()})
	if err != nil {
		return nil, err
	}
	m, err := readMembership(f)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []ownFolders{{folders: []*folder.Folder{f}}}, nil
	case err == nil:
		err = fault.Userf("data folder %s has regions of worker %s: start it with --role all", f.Dir(), m.Worker)
	}
	return nil, errors.Join(err, f.Close())
}
