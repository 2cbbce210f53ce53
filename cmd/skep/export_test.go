package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/skepdb/skep/export"
	"github.com/skepdb/skep/node"
)

var exportRows = flag.Int("export.rows", 20_000, "how many rows the export test writes; the project's figure is 1000000")

// syncBuffer may be written and read at the same time; lines tells of new ones.
type syncBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.more <- struct{}{}:
	default:
	}
	return b.text.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func runSkep(t *testing.T, want int, args ...string) string {
	t.Helper()
	var stdout, stderr bytes.Buffer
	a := &app{in: strings.NewReader(""), out: &stdout, err: &stderr}
	if code := a.run(t.Context(), args); code != want {
		t.Fatalf("skep %s: exit code %d, want %d\n%s%s", strings.Join(args, " "), code, want, stdout.String(), stderr.String())
	}
	return stdout.String() + stderr.String()
}

// A server made the file; a download from it that was broken off goes on and has
// the manifest's SHA-256. The data are the rows of the table.
func TestExportOverHTTP(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	// A table of many rows, and what its export must be.
	var rows bytes.Buffer
	rows.WriteString("id,name\n")
	for i := range *exportRows {
		fmt.Fprintf(&rows, "%d,\"name, %d\"\n", i, i*7919%1000003)
	}
	in := filepath.Join(dir, "in.csv")
	if err := os.WriteFile(in, rows.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	runSkep(t, exitFine, "table", "load", "big", in, "--header", "--create", "--key", "id", "--data", data)
	runSkep(t, exitFine, "export", "create", "big", "--query", "SELECT id, name FROM big ORDER BY id", "--data", data)
	if text := runSkep(t, exitFailed, "export", "create", "bad", "--query", "SELECT nam FROM big", "--data", data); !strings.Contains(text, `did you mean "name"?`) {
		t.Errorf("a wrong column: %s", text)
	}
	if text := runSkep(t, exitFailed, "export", "create", "bad", "--query", "DROP TABLE big", "--data", data); !strings.Contains(text, "want a SELECT") {
		t.Errorf("not a query: %s", text)
	}
	var made export.Run
	if err := json.Unmarshal([]byte(runSkep(t, exitFine, "export", "run", "big", "--json", "--data", data)), &made); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(rows.Bytes())
	if m := made.Manifest; m.Rows != int64(*exportRows) || m.DataSHA256 != hex.EncodeToString(sum[:]) || m.DataBytes != int64(rows.Len()) {
		t.Errorf("manifest %+v", m)
	}

	ctx, cancel := context.WithCancel(t.Context())
	out := &syncBuffer{more: make(chan struct{}, 1)}
	served := make(chan error, 1)
	go func() {
		a := &app{in: strings.NewReader(""), out: out, err: io.Discard}
		served <- a.serve(ctx, node.StartOptions{Role: node.RoleAll, Listen: "127.0.0.1:0", Options: node.Options{Data: []string{data}}}, "127.0.0.1:0")
	}()
	defer func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()
	var address string
	for address == "" {
		select {
		case <-out.more:
		case err := <-served:
			served <- err
			t.Fatalf("the server ended: %v\n%s", err, out)
		}
		if m := regexp.MustCompile(`exports at http://(\S+)/exports`).FindStringSubmatch(out.String()); m != nil {
			address = m[1]
		}
	}
	target := filepath.Join(dir, "big.zip")
	// What an earlier download left: the first third.
	s := export.Remote{Base: "http://" + address, Name: "big"}
	whole, err := s.Open(t.Context(), made, 0)
	if err != nil {
		t.Fatal(err)
	}
	first, err := io.ReadAll(io.LimitReader(whole, made.Manifest.ZipBytes/3))
	if err != nil {
		t.Fatal(err)
	}
	if err := whole.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target+"."+made.Manifest.ZipSHA256[:12]+".part", first, 0o644); err != nil {
		t.Fatal(err)
	}
	if text := runSkep(t, exitFine, "export", "download", "big", "--http", address, "-o", target); !strings.Contains(text, made.Manifest.ZipSHA256) {
		t.Errorf("printed %s", text)
	}
	z, err := zip.OpenReader(target)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	f, err := z.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(f)
	if err != nil || !bytes.Equal(got, rows.Bytes()) {
		t.Errorf("the data differ: %d bytes, want %d, %v", len(got), rows.Len(), err)
	}
	if text := runSkep(t, exitFailed, "export", "download", "bigg", "--http", address, "-o", dir); !strings.Contains(text, `did you mean "big"?`) {
		t.Errorf("a wrong name: %s", text)
	}
}
