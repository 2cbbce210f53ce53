package client_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/skepdb/skep/client"
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
	// Output:
	// Parus major 18
	// Parus major 1 18
	// Turdus merula 2 102.5
	// left: 1
	// left: 3
}
