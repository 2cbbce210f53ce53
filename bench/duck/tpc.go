package main

/*
extern int load_tpc(void *db);
*/
import "C"

import (
	"errors"
	"reflect"
	"unsafe"

	duckdb "github.com/duckdb/duckdb-go/v2"
)

// loadTPC makes dbgen, dsdgen, tpch_queries and tpcds_queries known.
func loadTPC(c *duckdb.Connector) error {
	db := reflect.ValueOf(c).Elem().FieldByName("db")
	if db.IsValid() {
		db = db.FieldByName("Ptr")
	}
	if !db.IsValid() {
		return errors.New("this duckdb-go keeps its database elsewhere: no TPC generators")
	}
	if C.load_tpc(unsafe.Pointer(db.Pointer())) != 0 {
		return errors.New("the TPC generators don't load")
	}
	return nil
}
