package client_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/skepdb/skep/client"
	"github.com/skepdb/skep/node"
)

// A table of records with a key: load or put them, get one, ask questions.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "skep-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	db, err := client.Open(ctx, client.Options{Data: []string{dir}})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()

	useBirds(ctx, db)
	// Output:
	// Parus major 18
	// Parus major 1 18
	// Turdus merula 2 102.5
	// left: 1
	// left: 3
}

// The same calls work on a server: one process that is master and worker here, and
// another worker that has joined it.
func Example_server() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "skep-example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	// skep start --data DIR/one --listen 127.0.0.1:0
	master, err := node.Start(ctx, node.StartOptions{Options: node.Options{Data: []string{dir + "/one"}}, Listen: "127.0.0.1:0"})
	if err != nil {
		log.Fatal(err)
	}
	defer master.Close()
	// skep start --role worker --data DIR/two --join ...
	worker, err := node.Start(ctx, node.StartOptions{Options: node.Options{Data: []string{dir + "/two"}}, Role: node.RoleWorker, Join: []string{master.Address()}})
	if err != nil {
		log.Fatal(err)
	}
	defer worker.Close()

	db, err := client.Connect(ctx, master.Address(), client.ConnectOptions{})
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	useBirds(ctx, db)
	// Output:
	// Parus major 18
	// Parus major 1 18
	// Turdus merula 2 102.5
	// left: 1
	// left: 3
}

// useBirds makes a table, puts rows, and asks.
func useBirds(ctx context.Context, db *client.Client) {
	birds, err := db.CreateTable(ctx, client.TableDefinition{
		Name:    "birds",
		Columns: []client.Column{{Name: "id", Type: "bigint"}, {Name: "name", Type: "string"}, {Name: "grams", Type: "double"}},
		Key:     []string{"id"},
	})
	if err != nil {
		log.Fatal(err)
	}
	err = birds.Put(ctx,
		client.Row{"id": 1, "name": "Turdus merula", "grams": 102.5},
		client.Row{"id": 2, "name": "Parus major", "grams": 18},
		client.Row{"id": 3, "name": "Turdus merula", "grams": nil})
	if err != nil {
		log.Fatal(err)
	}
	row, err := birds.Get(ctx, client.Key{2})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(row["name"], row["grams"])

	rows, err := db.Query(ctx, "SELECT name, count(*), avg(grams) FROM birds GROUP BY name ORDER BY name")
	if err != nil {
		log.Fatal(err)
	}
	defer rows.Close()
	for row, err := range rows.All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(row...)
	}

	if err := birds.Delete(ctx, client.Key{2}); err != nil {
		log.Fatal(err)
	}
	left, err := birds.Scan(ctx, client.ScanOptions{Columns: []string{"id"}})
	if err != nil {
		log.Fatal(err)
	}
	defer left.Close()
	for row, err := range left.All(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("left:", row[0])
	}
}
